"""The application of test_frameworks.py with Flask."""

from flask import Flask, jsonify, make_response, redirect, request, send_file

app = Flask(__name__)


def text(content):
    answer = make_response(content)
    answer.content_type = "text/plain"
    return answer


@app.get("/hello")
def hello():
    answer = text(f"hello {request.args.get('name')}, {request.headers.get('x-asked')}")
    answer.headers["x-made-by"] = "app"
    return answer


@app.post("/json")
def numbers():
    return jsonify({"sum": sum(request.get_json()["numbers"])})


@app.get("/items/<name>")
def item(name):
    return text(name)


@app.post("/upload")
def upload():
    total = 0
    while piece := request.stream.read(65_536):
        total += len(piece)
    return text(str(total))


@app.get("/stream")
def stream():
    return app.response_class(b"%d\n" % number for number in range(50))


@app.post("/form")
def form():
    file = request.files["f"]
    return text(f"{file.filename}: {len(file.read())}")


@app.get("/error")
def error():
    raise RuntimeError("as asked")


@app.get("/file")
def file():
    return send_file(__file__, mimetype="text/plain")


@app.get("/moved")
def moved():
    return redirect("/hello")


@app.get("/cookies")
def cookies():
    answer = text(request.cookies.get("a", ""))
    answer.set_cookie("b", "2")
    answer.set_cookie("c", "3")
    return answer
