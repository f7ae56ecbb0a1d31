// The Node service over HTTP. Listens on fd 3 when it was given (LISTEN_FDS), else on the path that is its argument.
const json = '{"id":42,"pad":"' + 'x'.repeat(182) + '"}'
const server = require('http').createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': json.length })
  response.end(json)
})
server.keepAliveTimeout = 300000
server.listen(process.env.LISTEN_FDS ? { fd: 3 } : process.argv[2])
