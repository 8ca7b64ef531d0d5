"""HTML pages: the web page, Swagger UI, and the page about errors."""
