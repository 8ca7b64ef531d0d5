/* Round five floats by DirectML's TOWARD_INFINITY, with libcurl. cc -o round round.c -lcurl */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sink { char *at; size_t left; };

static size_t take(char *data, size_t size, size_t count, void *into)
{
    struct sink *sink = into;
    size_t n = size * count;
    if (n > sink->left)
        return 0; /* more than the tensor: libcurl reports CURLE_WRITE_ERROR */
    memcpy(sink->at, data, n);
    sink->at += n;
    sink->left -= n;
    return n;
}

int main(void)
{
    const char *base = getenv("TENSOR_ROUND_URL");
    char url[512], problem[CURL_ERROR_SIZE] = "";
    float x[5] = {-2.5f, -0.3f, 0.5f, 1.5f, 2.5f}, y[5];
    struct sink sink = {(char *)y, sizeof y};

    snprintf(url, sizeof url, "%s/round", base ? base : "http://127.0.0.1:8000");
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
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L); /* 4xx and 5xx are errors */
    CURLcode code = curl_easy_perform(curl);
    curl_slist_free_all(fields);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK || sink.left != 0) {
        fprintf(stderr, "round: %s\n", problem[0] ? problem : "a short response");
        return 1;
    }
    for (int i = 0; i < 5; i++)
        printf("%g%c", y[i], i < 4 ? ' ' : '\n');
    return 0;
}
