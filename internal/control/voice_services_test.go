package control

import "testing"

func TestMovedServices(t *testing.T) {
	for _, c := range []struct{ service, to, engine, bot string }{
		{"openai", "https://proxy.example", "https://proxy.example/v1", "https://proxy.example/v1"},
		{"groq", "http://proxy.example:8080/", "http://proxy.example:8080/openai/v1", "http://proxy.example:8080/openai/v1"},
		{"openai", " https://proxy.example/a/openai/ ", "https://proxy.example/a/openai", "https://proxy.example/a/openai"},
		{"dashscope", "https://id.maas.example", "wss://id.maas.example", "https://id.maas.example/compatible-mode/v1"},
		{"dashscope", "wss://id.maas.example/api-ws/v1/inference/", "wss://id.maas.example",
			"https://id.maas.example/compatible-mode/v1"},
		{"dashscope", "http://id.maas.example/compatible-mode/v1", "ws://id.maas.example",
			"http://id.maas.example/compatible-mode/v1"},
		{"dashscope-intl", "https://proxy.example/a", "wss://proxy.example/a/api-ws/v1/inference",
			"https://proxy.example/a/compatible-mode/v1"},
	} {
		v, err := voiceServiceNamed(c.service)
		if err != nil {
			t.Fatal(err)
		}
		usual := v.Engine["base_url"] + v.Engine["url"]
		moved, _, err := v.moved(c.to)
		if got := moved.Engine["base_url"] + moved.Engine["url"]; err != nil || got != c.engine ||
			moved.Bot["base_url"] != c.bot {
			t.Errorf("%s at %s: the engine is at %s and the bot at %s, %v", c.service, c.to, got, moved.Bot["base_url"], err)
		}
		if usual != v.Engine["base_url"]+v.Engine["url"] {
			t.Errorf("the list of services has changed: %v", v.Engine)
		}
	}
	for _, to := range []string{"proxy.example", "ftp://proxy.example", "https://", "https://user:secret@proxy.example"} {
		if _, _, err := voiceServices[0].moved(to); err == nil {
			t.Errorf("%s is an address", to)
		}
	}
}
