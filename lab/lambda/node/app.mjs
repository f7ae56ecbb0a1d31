// The function that `pilotlight lab lambda` measures with: it answers at once.
export const handler = async () => ({ statusCode: 200, body: JSON.stringify({ pid: process.pid }) });
