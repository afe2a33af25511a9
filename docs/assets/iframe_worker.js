/* Opened as files, pages may not start workers; the search then runs in a frame of the page. */
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inner = frame.contentWindow
      this.waiting = []
      window.addEventListener("message", event => {
        if (event.source !== this.inner) return
        const copy = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(copy)
        if (this.onmessage) this.onmessage(copy)
      })
      const page = this.inner.document
      page.open()
      page.write("<!doctype html><body></body>")
      page.close()
      this.inner.eval(`
        self.postMessage = parent.postMessage.bind(parent)
        self.importScripts = (...urls) => urls.reduce((done, url) => done.then(() => new Promise((good, bad) => {
          const script = document.createElement("script")
          script.src = url
          script.onload = good
          script.onerror = bad
          document.body.appendChild(script)
        })), Promise.resolve())`)
      const script = page.createElement("script")
      script.src = url
      script.onload = () => {
        this.waiting.forEach(data => this.send(data))
        this.waiting = null
      }
      page.body.appendChild(script)
    }
    send(data) {
      this.inner.dispatchEvent(new MessageEvent("message", { data }))
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.send(data)
    }
    terminate() {}
  }
  window.Worker = window.IFrameWorker
}
