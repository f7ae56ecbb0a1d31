"""The function that `pilotlight lab lambda` measures with: it answers at once, or waits for others like it."""

import json
import os
import time


def handler(event, context):
    query = event.get("queryStringParameters") or {}
    if "meet" in query:
        meet(query["meet"], int(query["count"]))
    return {"statusCode": 200, "body": json.dumps({"pid": os.getpid()})}


def meet(folder, count):
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, str(os.getpid())), "w").close()
    while len(os.listdir(folder)) < count:
        time.sleep(0.02)
