"use strict";
// The connection to the engine: a worker made from the scripts of this page or, where the browser allows none, the page itself.

class Link {
  constructor(start, receive) {
    this.receive = receive;
    this.running = {};
    this.waiting = {};
    try {
      const source = ["engine.js", "serve.js", "worker.js"].map((id) => document.getElementById(id).textContent).join("\n");
      this.worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
      this.worker.onmessage = (event) => this.got(event.data);
      this.worker.onerror = (event) => {
        event.preventDefault();
        this.here(start);
      };
      this.worker.postMessage(start);
    } catch (error) {
      this.here(start);
    }
  }

  here(start) {
    this.worker = null;
    this.local = serve((message) => setTimeout(() => this.got(message), 0));
    this.running = {};
    this.local(start);
  }

  // Of several questions of one kind only the newest is asked while another is being answered.
  ask(kind, message) {
    if (this.running[kind]) {
      this.waiting[kind] = message;
      return;
    }
    this.running[kind] = true;
    this.post({ ...message, kind });
  }

  post(message) {
    if (this.worker) this.worker.postMessage(message);
    else setTimeout(() => this.local(message), 0);
  }

  got(message) {
    this.receive(message);
    const next = this.waiting[message.kind];
    this.running[message.kind] = false;
    if (next) {
      delete this.waiting[message.kind];
      this.ask(message.kind, next);
    }
  }
}
