"""A Flask application for `python -m pilotlight.wsgi flask_app:app`. It answers with its process id."""
import os

from flask import Flask

app = Flask(__name__)


@app.get("/")
def index():
    return str(os.getpid())
