"""A Python service over the pipe that imports something heavy first. It answers with its process id."""
import os

import heavy
import pilotlight

assert heavy.DONE
pilotlight.serve(lambda request: (200, [], str(os.getpid())))
