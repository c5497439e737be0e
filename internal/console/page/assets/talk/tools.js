// The tools of the board that the page is: an MCP server inside the session, with the names and
// results of the firmware (xiaozhi-esp32 main/mcp_server.cc, McpServer::AddCommonTools).

const object = (properties = {}, required = Object.keys(properties)) => ({type: "object", properties, required});

// Tools answers the server's MCP messages. face has what the tools act on: volume, theme, photo.
export class Tools {
  constructor(face, upload) {
    this.vision = null;
    this.upload = upload;
    this.list = [
      {
        name: "self.get_device_status",
        description: "Returns the current state of the device: volume, screen and network. Call it before you change one of them.",
        inputSchema: object(),
        call: () => JSON.stringify({audio_speaker: {volume: face.volume}, screen: {theme: face.theme}, network: {type: navigator.connection?.type === "cellular" ? "cellular" : "wifi"}}),
      }, {
        name: "self.audio_speaker.set_volume",
        description: "Sets the volume of the speaker, from 0 to 100.",
        inputSchema: object({volume: {type: "integer", minimum: 0, maximum: 100}}),
        call: ({volume}) => { face.volume = Math.max(0, Math.min(100, Math.round(volume))); return true; },
      }, {
        name: "self.screen.set_theme",
        description: "Sets the theme of the screen: light or dark.",
        inputSchema: object({theme: {type: "string"}}),
        call: ({theme}) => { face.theme = theme === "dark" ? "dark" : "light"; return true; },
      }, {
        name: "self.camera.take_photo",
        description: "Takes a photo and answers a question about what is seen.",
        inputSchema: object({question: {type: "string"}}),
        call: async ({question}) => this.upload(this.vision, await face.photo(), question ?? ""),
      },
    ];
  }

  // answer returns the response to a message, or nothing if it needs none.
  async answer({id, method, params}) {
    if (id === undefined) return undefined;
    try {
      return {jsonrpc: "2.0", id, result: await this.result(method, params ?? {})};
    } catch (e) {
      return {jsonrpc: "2.0", id, error: {code: -32603, message: e.message}};
    }
  }

  async result(method, params) {
    switch (method) {
    case "initialize":
      this.vision = params.capabilities?.vision ?? this.vision;
      return {protocolVersion: "2024-11-05", capabilities: {tools: {}}, serverInfo: {name: "browser", version: "1.0.0"}};
    case "tools/list":
      return {tools: this.list.map(({name, description, inputSchema}) => ({name, description, inputSchema}))};
    case "tools/call": {
      const tool = this.list.find(t => t.name === params.name);
      if (!tool) throw new Error("Unknown tool: " + params.name);
      return {content: [{type: "text", text: String(await tool.call(params.arguments ?? {}))}], isError: false};
    }
    }
    throw new Error("Method not implemented: " + method);
  }
}
