/* Round five floats by DirectML's TOWARD_INFINITY, with libcurl. cc -o round round.c -lcurl */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tensor, or the reason of a refusal (application/problem+json). */
struct sink { char data[4096]; size_t length; };

static size_t take(char *data, size_t size, size_t count, void *into)
{
    struct sink *sink = into;
    size_t n = size * count;
    if (n > sizeof sink->data - sink->length)
        return 0; /* libcurl reports CURLE_WRITE_ERROR */
    memcpy(sink->data + sink->length, data, n);
    sink->length += n;
    return n;
}

int main(void)
{
    const char *base = getenv("TENSOR_ROUND_URL");
    char url[512], problem[CURL_ERROR_SIZE] = "";
    float x[5] = {-2.5f, -0.3f, 0.5f, 1.5f, 2.5f}, y[5];
    struct sink sink = {.length = 0};
    long status = 0;

    base = base ? base : "http://127.0.0.1:8000";
    int length = (int)strlen(base); /* without the slash that it may end with */
    snprintf(url, sizeof url, "%.*s/round", length - (length && base[length - 1] == '/'), base);
    CURL *curl = curl_easy_init();
    struct curl_slist *fields = curl_slist_append(NULL, "Content-Type: application/octet-stream");
    fields = curl_slist_append(fields,
        "Operator-Descriptor: {\"dialect\":\"directml\",\"feature_level\":\"3_0\","
        "\"type\":\"DML_OPERATOR_ELEMENT_WISE_ROUND\",\"desc\":{"
        "\"InputTensor\":{\"DataType\":\"FLOAT32\",\"Sizes\":[5]},"
        "\"OutputTensor\":{\"DataType\":\"FLOAT32\",\"Sizes\":[5]},"
        "\"RoundingMode\":\"TOWARD_INFINITY\"}}");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, (char *)x); /* little-endian, as on x86 and ARM */
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)sizeof x);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(fields);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK || status != 200 || sink.length != sizeof y) {
        fprintf(stderr, "round: %s %ld %.*s\n", problem, status, (int)sink.length, sink.data);
        return 1;
    }
    memcpy(y, sink.data, sizeof y);
    for (int i = 0; i < 5; i++)
        printf("%g%c", y[i], i < 4 ? ' ' : '\n');
    return 0;
}
