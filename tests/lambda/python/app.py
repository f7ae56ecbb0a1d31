"""A function of AWS Lambda for the tests, with no word about Pilotlight: what a path asks for."""

import base64
import json
import os
import time

COUNT = 0


def handler(event, context):
    global COUNT
    COUNT += 1
    if not isinstance(event, dict):
        return {"event": event}
    path = event.get("rawPath") or event.get("path") or ""
    if path == "/error":
        raise ValueError("not today")
    if path == "/exit":
        os._exit(3)
    if path == "/sleep":
        time.sleep(float(event["queryStringParameters"]["s"]))
        return {"statusCode": 200, "body": f"{os.getpid()}"}
    if path == "/binary":
        body = base64.b64decode(event["body"]) if event["isBase64Encoded"] else event["body"].encode()
        return {
            "statusCode": 200,
            "headers": {"content-type": "application/octet-stream"},
            "body": base64.b64encode(body[::-1]).decode(),
            "isBase64Encoded": True,
        }
    if path == "/cookies":
        return {"statusCode": 200, "cookies": ["a=1; Path=/", "b=2"], "headers": {"X-One": "1"}, "body": ""}
    if path == "/large":
        return {"statusCode": 200, "body": "x" * int(event["queryStringParameters"]["bytes"])}
    if path == "/plain":
        return {"hello": "world"}
    if path == "/bad":
        return {"statusCode": "many"}
    told = {
        "event": event,
        "count": COUNT,
        "pid": os.getpid(),
        "request_id": context.aws_request_id,
        "arn": context.invoked_function_arn,
        "name": context.function_name,
        "memory": context.memory_limit_in_mb,
        "log_group": context.log_group_name,
        "log_stream": context.log_stream_name,
        "remaining_ms": context.get_remaining_time_in_millis(),
        "trace": os.environ.get("_X_AMZN_TRACE_ID"),
        "env": {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "LAMBDA_", "_HANDLER"))},
    }
    if "requestContext" not in event:
        return told
    return {"statusCode": 200, "headers": {"content-type": "application/json"}, "body": json.dumps(told)}
