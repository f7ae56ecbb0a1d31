// The Node service over the pipe: the same handler as ../services/http.js.
const json = '{"id":42,"pad":"' + 'x'.repeat(182) + '"}'
require('../../../../sdk/node').serve((request, response) => {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': json.length })
  response.end(json)
})
