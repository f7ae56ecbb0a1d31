"""The application of test_frameworks.py with Django, by both of its interfaces."""

import json

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import FileResponse, HttpResponse, HttpResponseRedirect, JsonResponse, StreamingHttpResponse
from django.urls import path

settings.configure(
    ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="of tests", DATA_UPLOAD_MAX_MEMORY_SIZE=None,
    LOGGING_CONFIG=None,
)
django.setup()


def text(content):
    return HttpResponse(content, content_type="text/plain")


def hello(request):
    answer = text(f"hello {request.GET.get('name')}, {request.headers.get('x-asked')}")
    answer["x-made-by"] = "app"
    return answer


def numbers(request):
    return JsonResponse({"sum": sum(json.loads(request.body)["numbers"])})


def stream(request):
    return StreamingHttpResponse(b"%d\n" % number for number in range(50))


def form(request):
    file = request.FILES["f"]
    return text(f"{file.name}: {len(file.read())}")


def error(request):
    raise RuntimeError("as asked")


def cookies(request):
    answer = text(request.COOKIES.get("a", ""))
    answer.set_cookie("b", "2")
    answer.set_cookie("c", "3")
    return answer


urlpatterns = [
    path("hello", hello),
    path("json", numbers),
    path("items/<name>", lambda request, name: text(name)),
    path("upload", lambda request: text(str(len(request.body)))),
    path("stream", stream),
    path("form", form),
    path("error", error),
    path("cookies", cookies),
    path("file", lambda request: FileResponse(open(__file__, "rb"), content_type="text/plain")),
    path("moved", lambda request: HttpResponseRedirect("/hello")),
]
asgi, wsgi = get_asgi_application(), get_wsgi_application()
