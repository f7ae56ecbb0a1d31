"""The application of test_frameworks.py with Channels beside Django."""

import of_django
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from django.urls import path


class Talk(AsyncWebsocketConsumer):
    async def connect(self):
        await self.accept(subprotocol="chat")

    async def receive(self, text_data=None, bytes_data=None):
        if text_data == "bye":
            return await self.close(4001)
        await self.send(text_data=f"you said {text_data}")


app = ProtocolTypeRouter({"http": of_django.asgi, "websocket": URLRouter([path("ws", Talk.as_asgi())])})
