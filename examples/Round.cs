// Round five floats by DirectML's TOWARD_INFINITY, with HttpClient. C# 6 and newer.
using System;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Threading.Tasks;

static class Program
{
    const string Descriptor =
        "{\"dialect\":\"directml\",\"feature_level\":\"3_0\",\"type\":\"DML_OPERATOR_ELEMENT_WISE_ROUND\","
        + "\"desc\":{\"InputTensor\":{\"DataType\":\"FLOAT32\",\"Sizes\":[5]},"
        + "\"OutputTensor\":{\"DataType\":\"FLOAT32\",\"Sizes\":[5]},\"RoundingMode\":\"TOWARD_INFINITY\"}}";

    static async Task<float[]> Round(HttpClient client, string url, float[] x)
    {
        var bytes = new byte[4 * x.Length];
        Buffer.BlockCopy(x, 0, bytes, 0, bytes.Length); // little-endian, as on x86 and ARM
        var request = new HttpRequestMessage(HttpMethod.Post, url.TrimEnd('/') + "/round");
        request.Content = new ByteArrayContent(bytes);
        request.Content.Headers.ContentType = new MediaTypeHeaderValue("application/octet-stream");
        request.Headers.TryAddWithoutValidation("Operator-Descriptor", Descriptor);
        HttpResponseMessage response = await client.SendAsync(request);
        if (!response.IsSuccessStatusCode)
        {
            string problem = await response.Content.ReadAsStringAsync(); // application/problem+json
            throw new HttpRequestException((int)response.StatusCode + ": " + problem);
        }
        byte[] result = await response.Content.ReadAsByteArrayAsync();
        var y = new float[x.Length];
        Buffer.BlockCopy(result, 0, y, 0, bytes.Length);
        return y;
    }

    static void Main()
    {
        string url = Environment.GetEnvironmentVariable("TENSOR_ROUND_URL") ?? "http://127.0.0.1:8000";
        float[] x = { -2.5f, -0.3f, 0.5f, 1.5f, 2.5f };
        float[] y = Round(new HttpClient(), url, x).GetAwaiter().GetResult();
        Console.WriteLine(string.Join(" ", y.Select(v => v == 0 && 1 / v < 0 ? "-0" : v.ToString())));
    }
}
