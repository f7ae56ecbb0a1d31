"""What bench.py asks of Flask: a short text, and a view of 10 KB of JSON."""

from flask import Flask, jsonify

app = Flask(__name__)
ITEMS = [{"id": number, "name": f"item {number}", "price": number * 1.25, "tags": ["a", "b"]} for number in range(150)]


@app.get("/hello")
def hello():
    return "hello, world\n"


@app.get("/json")
def view():
    return jsonify(ITEMS)
