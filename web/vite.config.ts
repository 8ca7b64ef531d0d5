import { defineConfig } from "vite";

// The service's address, for `npm run dev`.
const SERVICE = process.env["TENSOR_ROUND_URL"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  base: "./", // a proxy may have the page at any path
  build: {
    outDir: "../service/tensor_round_service/web",
    emptyOutDir: true,
    assetsDir: "page",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: { entryFileNames: "page/page.js", assetFileNames: ({ names: [name] }) => (name?.endsWith(".css") ? "page/page.css" : "page/[name][extname]") },
    },
  },
  server: { proxy: { "^/(round|operators|readyz)": SERVICE } },
});
