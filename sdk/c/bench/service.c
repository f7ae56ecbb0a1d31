/* The service under measurement: the same answer over the pipe, and with -DFASTCGI over FastCGI by libfcgi. */
#include <stdio.h>
#include <string.h>

static char answer[200];

static void prepare(void) {
	memset(answer, 'x', sizeof answer);
	memcpy(answer, "{\"id\":42,\"pad\":\"", 16);
	memcpy(answer + sizeof answer - 2, "\"}", 2);
}

#ifdef FASTCGI
#include <fcgiapp.h>

int main(void) {
	FCGX_Request request;
	prepare();
	if (FCGX_Init() || FCGX_InitRequest(&request, 0, 0)) return 1;
	while (FCGX_Accept_r(&request) == 0) {
		if (!FCGX_GetParam("REQUEST_METHOD", request.envp)) return 1;
		FCGX_FPrintF(request.out, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", (int)sizeof answer);
		FCGX_PutStr(answer, (int)sizeof answer, request.out);
		FCGX_Finish_r(&request);
	}
	return 0;
}
#else
#include "../pilotlight.h"

static void handle(pilotlight_exchange *x, void *context) {
	(void)context;
	pilotlight_header(x, "content-length", "200");
	pilotlight_answer(x, 200, "application/json", answer, sizeof answer);
}

int main(void) {
	pilotlight_settings settings = {.exchanges = 256};
	prepare();
	return pilotlight_serve_with(&settings, handle, NULL);
}
#endif
