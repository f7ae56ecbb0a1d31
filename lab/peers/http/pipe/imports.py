"""A Python service over the pipe that imports something heavy first. It answers with its process id."""
import os

import heavy  # noqa: F401  what takes long
import pilotlight

pilotlight.serve(lambda request: (200, [], str(os.getpid())))
