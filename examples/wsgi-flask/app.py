"""An ordinary Flask application; nothing here knows of Pilotlight, which runs `python -m pilotlight.wsgi app:app`."""

import time

from flask import Flask, Response, jsonify, make_response, request

app = Flask(__name__)


@app.get("/")
def index():
    return "hello from Flask\n"


@app.get("/hello/<name>")
def hello(name):
    return jsonify(hello=name, host=request.host, query=request.args.to_dict(flat=False))


@app.post("/echo")
def echo():
    if request.is_json:
        return jsonify(json=request.get_json())
    return jsonify(form=request.form.to_dict(flat=False))


@app.get("/stream")
def stream():
    def lines():
        for number in range(5):
            yield f"line {number}\n"
            time.sleep(0.1)

    return Response(lines(), mimetype="text/plain")


@app.get("/cookies")
def cookies():
    visits = int(request.cookies.get("visits", "0")) + 1
    response = make_response(f"visit {visits}\n")
    response.set_cookie("visits", str(visits), httponly=True, samesite="Lax")
    response.set_cookie("last", str(int(time.time())))
    return response
