// A browser refuses workers to a page that lies on the disk. There, and nowhere else, what would be a
// worker (the search) runs in a hidden frame, which has the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      // Later, as a worker's replies come, never while the page still sends its question.
      inside.postMessage = data => setTimeout(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      })
      this.ready = new Promise(resolve => {
        const script = inside.document.createElement("script")
        script.src = new URL(url, location.href)
        script.onload = resolve
        script.onerror = event => this.onerror?.(event)
        inside.document.body.append(script)
      })
    }

    postMessage(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) })
      this.ready.then(() => this.frame.contentWindow?.dispatchEvent(event))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
