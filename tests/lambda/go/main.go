// A function of AWS Lambda for the tests, with no word about Pilotlight.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

func handle(ctx context.Context, event events.LambdaFunctionURLRequest) (any, error) {
	switch event.RawPath {
	case "/error":
		return nil, errors.New("not today")
	case "/stream":
		return &events.LambdaFunctionURLStreamingResponse{
			StatusCode: 202,
			Headers:    map[string]string{"Content-Type": "text/plain", "X-Streamed": "yes"},
			Body:       strings.NewReader("from go"),
		}, nil
	}
	context, _ := lambdacontext.FromContext(ctx)
	deadline, _ := ctx.Deadline()
	body, _ := json.Marshal(map[string]any{
		"event": event, "pid": os.Getpid(), "id": context.AwsRequestID, "deadline_ms": deadline.UnixMilli(),
	})
	return events.LambdaFunctionURLResponse{
		StatusCode: 201, Headers: map[string]string{"Content-Type": "application/json"}, Body: string(body),
	}, nil
}

func main() {
	lambda.Start(handle)
}
