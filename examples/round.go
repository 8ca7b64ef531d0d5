// Round five floats by DirectML's TOWARD_INFINITY, with the standard library. go run round.go
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

const descriptor = `{"dialect":"directml","feature_level":"3_0",` +
	`"type":"DML_OPERATOR_ELEMENT_WISE_ROUND","desc":{` +
	`"InputTensor":{"DataType":"FLOAT32","Sizes":[5]},` +
	`"OutputTensor":{"DataType":"FLOAT32","Sizes":[5]},"RoundingMode":"TOWARD_INFINITY"}}`

func round(url string, x []float32) ([]float32, error) {
	var body bytes.Buffer
	binary.Write(&body, binary.LittleEndian, x)
	request, err := http.NewRequest("POST", url+"/round", &body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	request.Header.Set("Operator-Descriptor", descriptor)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		problem, _ := io.ReadAll(response.Body) // application/problem+json
		return nil, fmt.Errorf("%s: %s", response.Status, problem)
	}
	y := make([]float32, len(x))
	return y, binary.Read(response.Body, binary.LittleEndian, y)
}

func main() {
	url := os.Getenv("TENSOR_ROUND_URL")
	if url == "" {
		url = "http://127.0.0.1:8000"
	}
	y, err := round(strings.TrimSuffix(url, "/"), []float32{-2.5, -0.3, 0.5, 1.5, 2.5})
	if err != nil {
		log.Fatal(err)
	}
	for i, v := range y {
		fmt.Print(v, map[bool]string{true: "\n", false: " "}[i == len(y)-1])
	}
}
