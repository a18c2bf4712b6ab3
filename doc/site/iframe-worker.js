// SPDX-License-Identifier: Apache-2.0
// iframe-worker.js - lets the search work in pages that are opened from the disk.
//
// Browsers start no worker there. This one runs the worker's script in a hidden frame, and passes messages as events.
// Material asks for "IFrameWorker" by name, and would load one from another host if this file were not named so.
if (location.protocol === "file:") {
  self.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.worker = this
      document.body.append(this.frame)
      this.ready = new Promise(done => this.frame.addEventListener("load", done, { once: true }))
      const inside = this.frame.contentDocument
      inside.open()
      inside.write("<script>self.postMessage = data => frameElement.worker.dispatchEvent(" +
        `new parent.MessageEvent("message", { data }))<\/script><script src="${url}"><\/script>`)
      inside.close()
    }
    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }
    terminate() { this.frame.remove() }
  }
  self.Worker = self.IFrameWorker
}
