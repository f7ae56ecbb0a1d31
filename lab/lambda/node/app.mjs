// The function that lab/lambda.py measures with: it answers at once.
export const handler = async () => ({ statusCode: 200, body: JSON.stringify({ pid: process.pid }) });
