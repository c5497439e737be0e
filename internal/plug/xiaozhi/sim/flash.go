package sim

import (
	"encoding/json"
	"fmt"
	"strconv"

	"patchbay/internal/plug/xiaozhi/wire"
)

// flash is the configuration from OTA responses. Members are merged: one that is not sent again
// keeps its value.
type flash struct{ websocket, mqtt []setting }

// setting is one member; numbers are stored as text.
type setting struct{ key, value string }

// merge stores a section of an OTA response. A key longer than wire.MaxKey or a value longer than
// wire.MaxValue makes the firmware abort at every boot (xiaozhi-esp32 main/settings.cc,
// Settings::SetString).
func merge(into *[]setting, section json.RawMessage) error {
	var members map[string]json.RawMessage
	if len(section) == 0 || json.Unmarshal(section, &members) != nil {
		return nil
	}
	for key, raw := range members {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			var number float64
			if json.Unmarshal(raw, &number) != nil {
				continue
			}
			text = strconv.Itoa(int(number))
		}
		if len(key) > wire.MaxKey {
			return &Crash{fmt.Sprintf("the name %q does not fit into the flash", key)}
		}
		if len(text) > wire.MaxValue {
			return &Crash{fmt.Sprintf("the value of %q does not fit into the flash", key)}
		}
		put(into, setting{key, text})
	}
	return nil
}

func put(into *[]setting, s setting) {
	for i := range *into {
		if (*into)[i].key == s.key {
			(*into)[i].value = s.value
			return
		}
	}
	*into = append(*into, s)
}

func get(from []setting, key string) string {
	for _, s := range from {
		if s.key == key {
			return s.value
		}
	}
	return ""
}

func (f *flash) socketPlan() wire.WebSocketConfig {
	version, _ := strconv.Atoi(get(f.websocket, "version"))
	return wire.WebSocketConfig{URL: get(f.websocket, "url"), Token: get(f.websocket, "token"),
		Version: wire.Framing(version)}
}

func (f *flash) mqttPlan() wire.MQTTConfig {
	keepalive, _ := strconv.Atoi(get(f.mqtt, "keepalive"))
	if keepalive <= 0 {
		keepalive = int(wire.DefaultKeepalive.Seconds())
	}
	return wire.MQTTConfig{
		Endpoint: get(f.mqtt, "endpoint"), ClientID: get(f.mqtt, "client_id"), Username: get(f.mqtt, "username"),
		Password: get(f.mqtt, "password"), Publish: get(f.mqtt, "publish_topic"), Keepalive: keepalive,
	}
}
