package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// OTARequest is the body of a board's OTA request (xiaozhi-esp32 main/boards/common/board.cc,
// Board::GetSystemInfoJson). Older firmware omits many members.
type OTARequest struct {
	Version     int         `json:"version"`
	Language    string      `json:"language"`
	FlashSize   int64       `json:"flash_size"`
	MinimumHeap string      `json:"minimum_free_heap_size"` // a decimal number, in bytes
	MAC         string      `json:"mac_address"`
	UUID        string      `json:"uuid"`
	Chip        string      `json:"chip_model_name"`
	Application Application `json:"application"`
	OTA         struct {
		Label string `json:"label"`
	} `json:"ota"`
	Display Display `json:"display"`
	Board   struct {
		Type     string `json:"type"` // firmware family
		Name     string `json:"name"` // product name
		Maker    string `json:"manufacturer"`
		SSID     string `json:"ssid"`
		RSSI     int    `json:"rssi"` // in dBm
		Channel  int    `json:"channel"`
		IP       string `json:"ip"`
		MAC      string `json:"mac"`
		Revision string `json:"revision"` // of 4G modems
		Carrier  string `json:"carrier"`
	} `json:"board"`
}

// Application describes the firmware of a board.
type Application struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	CompileTime string `json:"compile_time"` // "Aug  6 2026T10:00:00Z": not RFC 3339
	IDF         string `json:"idf_version"`
	SHA256      string `json:"elf_sha256"`
}

// Display describes the display of a board.
type Display struct {
	Monochrome bool `json:"monochrome"`
	Width      int  `json:"width"` // in pixels
	Height     int  `json:"height"`
}

// ParseOTARequest parses the body of an OTA request. Unreadable members stay empty; the headers
// identify the board too.
func ParseOTARequest(body []byte) OTARequest {
	var b OTARequest
	unmarshalLenient(body, &b)
	return b
}

// OTAResponse is the response to an OTA request (xiaozhi-esp32 main/ota.cc, Ota::CheckVersion). A
// board that is offered MQTT never uses the WebSocket (main/application.cc,
// Application::InitializeProtocol). A board keeps a stored value until it is replaced: to remove a
// token, send an empty one.
type OTAResponse struct {
	Time       *ServerTime      `json:"server_time,omitempty"`
	Firmware   Firmware         `json:"firmware"`
	WebSocket  *WebSocketConfig `json:"websocket,omitempty"`
	MQTT       *MQTTConfig      `json:"mqtt,omitempty"`
	Activation *Activation      `json:"activation,omitempty"`
}

// ServerTime sets the board's clock.
type ServerTime struct {
	Timestamp int64 `json:"timestamp"`       // in milliseconds since 1970
	Offset    int   `json:"timezone_offset"` // in minutes
}

// Firmware is the available firmware. An empty URL means no update.
type Firmware struct {
	Version string `json:"version"` // digits and dots; boards abort on anything else (Ota::ParseVersion)
	URL     string `json:"url"`
	Force   int    `json:"force,omitempty"` // 1: even if it is not newer
}

// WebSocketConfig is the WebSocket endpoint for a board.
type WebSocketConfig struct {
	URL     string  `json:"url"` // see [ParseSocketURL]
	Token   string  `json:"token"`
	Version Framing `json:"version"`
}

// MQTTConfig is the MQTT broker for a board (xiaozhi-esp32 main/protocols/mqtt_protocol.cc,
// MqttProtocol::StartMqttClient).
type MQTTConfig struct {
	Endpoint  string `json:"endpoint"` // see [ParseEndpoint]
	ClientID  string `json:"client_id"`
	Username  string `json:"username"`
	Password  string `json:"password"`
	Publish   string `json:"publish_topic"`
	Subscribe string `json:"subscribe_topic"` // ignored by boards; py-xiaozhi requires it
	Keepalive int    `json:"keepalive"`       // in seconds
}

// Activation makes a board show a code until it is approved. Without a challenge, boards do not
// send activation requests (xiaozhi-esp32 main/ota.cc, Ota::Activate).
type Activation struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Challenge string `json:"challenge"`
	TimeoutMS int    `json:"timeout_ms"`
}

// Marshal returns the response as JSON. It fails if boards would not survive the response.
func (a *OTAResponse) Marshal() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		return nil, err
	}
	if faults := CheckOTAResponse(b.Bytes()); len(faults) > 0 {
		return nil, fmt.Errorf("boards cannot take this: %s", strings.Join(faults, "; "))
	}
	return b.Bytes(), nil
}

// ParseOTAResponse parses a response, and ignores members of the wrong type, as boards do. See
// [CheckOTAResponse] for what boards do not survive.
func ParseOTAResponse(body []byte) (OTAResponse, error) {
	var a OTAResponse
	if !unmarshalLenient(body, &a) {
		return OTAResponse{}, ErrMessage
	}
	return a, nil
}

// CheckOTAResponse returns the faults of an OTA response that make boards reboot, hang, or unable
// to connect.
func CheckOTAResponse(body []byte) []string {
	var faults []string
	complain := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if len(body) >= MaxHTTPBody {
		complain("the body has %d bytes, and boards hang at %d", len(body), MaxHTTPBody)
	}
	var in map[string]json.RawMessage
	if json.Unmarshal(body, &in) != nil {
		complain("the body is no JSON object")
		return faults
	}
	var a OTAResponse
	unmarshalLenient(body, &a)
	if object(in["websocket"]) == nil && object(in["mqtt"]) == nil && object(in["activation"]) == nil {
		complain("there is neither websocket nor mqtt")
	}
	for _, section := range []string{"websocket", "mqtt"} {
		faults = append(faults, checkSection(section, in[section])...)
	}
	if a.WebSocket != nil {
		if _, err := ParseSocketURL(a.WebSocket.URL); err != nil {
			complain("websocket.url: %v", err)
		}
	}
	if a.MQTT != nil {
		if _, err := ParseEndpoint(a.MQTT.Endpoint); err != nil {
			complain("mqtt.endpoint: %v", err)
		}
	}
	if v := a.Firmware.Version; v != "" {
		if _, err := Newer(v, "0"); err != nil {
			complain("firmware.version: %v", err)
		}
	}
	if a.Activation != nil && a.Activation.Challenge == "" {
		complain("activation has no challenge, so boards never ask whether it is done")
	}
	return faults
}

// checkSection returns the members that do not fit into a board's flash.
func checkSection(name string, section json.RawMessage) []string {
	var faults []string
	var members map[string]json.RawMessage
	if object(section) == nil || json.Unmarshal(section, &members) != nil {
		return nil
	}
	for key, value := range members {
		var text string
		stored := value[0] == '"' && json.Unmarshal(value, &text) == nil || value[0] == '-' ||
			'0' <= value[0] && value[0] <= '9'
		if stored && len(key) > MaxKey {
			faults = append(faults, fmt.Sprintf("the name %s.%s is longer than %d characters", name, key, MaxKey))
		}
		if len(text) > MaxValue {
			faults = append(faults, fmt.Sprintf("%s.%s is longer than %d bytes", name, key, MaxValue))
		}
	}
	return faults
}

// Newer reports whether a version is newer than another, as boards compare them: part by part, as
// numbers (xiaozhi-esp32 main/ota.cc, Ota::IsNewVersionAvailable). It fails if boards abort on the
// offered version.
func Newer(offered, running string) (bool, error) {
	a, err := parts(offered)
	if err != nil {
		return false, err
	}
	b, err := parts(running)
	if err != nil {
		return false, nil
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] > b[i], nil
		}
	}
	return len(a) > len(b), nil
}

func parts(version string) ([]int64, error) {
	var out []int64
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || part[0] == '+' {
			return nil, fmt.Errorf("%q is not digits and dots", version)
		}
		out = append(out, int64(n))
	}
	return out, nil
}

// ActivationProof is the body of an activation request (xiaozhi-esp32 main/ota.cc,
// Ota::GetActivationPayload).
type ActivationProof struct {
	Algorithm string `json:"algorithm,omitempty"` // "hmac-sha256"
	Serial    string `json:"serial_number,omitempty"`
	Challenge string `json:"challenge,omitempty"`
	HMAC      string `json:"hmac,omitempty"` // in hex
}
