"""The Python service as a WSGI application, for uWSGI."""
JSON = ('{"id":42,"pad":"' + "x" * 182 + '"}').encode()
HEADERS = [("Content-Type", "application/json"), ("Content-Length", str(len(JSON)))]


def application(environ, start_response):
    start_response("200 OK", HEADERS)
    return [JSON]
