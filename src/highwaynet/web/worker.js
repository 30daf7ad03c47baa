"use strict";
// The last lines of the worker, after engine.js and serve.js
{
  const receive = serve((message) => self.postMessage(message));
  self.onmessage = (event) => receive(event.data);
}
