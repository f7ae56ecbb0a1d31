'use strict';
const { serve } = require('../../sdk/node'); // in a project of your own: require('pilotlight')

serve((req, res) => {
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify({ hello: 'node, over the pipe', method: req.method, url: req.url, pid: process.pid }));
});
