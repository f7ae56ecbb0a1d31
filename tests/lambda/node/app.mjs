// A function of AWS Lambda for the tests, with no word about Pilotlight: a streamed response and a plain one.
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export const handler = async (event, context) => {
  if (event.rawPath === "/error") throw new TypeError("not today");
  if (event.rawPath === undefined) return { event };
  return {
    statusCode: 201,
    headers: { "content-type": "application/json" },
    cookies: ["a=1"],
    body: JSON.stringify({ event, pid: process.pid, id: context.awsRequestId, left: context.getRemainingTimeInMillis() }),
  };
};

export const stream = awslambda.streamifyResponse(async (event, out) => {
  if (event.rawPath === "/raw") {
    out.setContentType("text/plain");
    out.write("raw");
    out.end();
    return;
  }
  const head = { statusCode: 202, headers: { "content-type": "text/plain", "x-streamed": "yes" }, cookies: ["s=1"] };
  const body = awslambda.HttpResponseStream.from(out, head);
  for (let n = 0; n < 3; n++) {
    body.write(`part ${n}\n`);
    await pause(50);
  }
  if (event.rawPath === "/fails") throw new Error("in the middle");
  if (event.rawPath === "/endless") for (;;) { body.write("more\n"); await pause(10); }
  body.end();
});
