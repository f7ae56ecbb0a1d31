"""A function of AWS Lambda as the gateway runs it (docs/guide/lambda.md): python3 -m awslambdaric app.handler"""


def handler(event, context):
    name = (event.get("queryStringParameters") or {}).get("name", "world")
    return {
        "statusCode": 200,
        "headers": {"content-type": "text/plain; charset=utf-8"},
        "body": f"Hello, {name}! {context.get_remaining_time_in_millis()} ms are left.\n",
    }
