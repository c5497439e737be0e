package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Board is what a board says of itself when it calls home. Much is missing from
// older firmware; what is missing is empty.
type Board struct {
	Version     int         `json:"version"`
	Language    string      `json:"language"`
	FlashSize   int64       `json:"flash_size"`
	MinimumHeap string      `json:"minimum_free_heap_size"` // a number, in bytes
	MAC         string      `json:"mac_address"`
	UUID        string      `json:"uuid"`
	Chip        string      `json:"chip_model_name"`
	Application Application `json:"application"`
	OTA         struct {
		Label string `json:"label"`
	} `json:"ota"`
	Display Display `json:"display"`
	Board   struct {
		Type     string `json:"type"` // the family of firmware
		Name     string `json:"name"` // the article
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

// Application is the firmware of a board.
type Application struct {
	Name        string `json:"name"`
	Version     string `json:"version"`
	CompileTime string `json:"compile_time"` // "Aug  6 2026T10:00:00Z"
	IDF         string `json:"idf_version"`
	SHA256      string `json:"elf_sha256"`
}

// Display is what a board shows things on.
type Display struct {
	Monochrome bool `json:"monochrome"`
	Width      int  `json:"width"` // in pixels
	Height     int  `json:"height"`
}

// ParseBoard reads the body of the call home. What cannot be read stays empty:
// who the board is, the headers say too.
func ParseBoard(body []byte) Board {
	var b Board
	lenient(body, &b)
	return b
}

// Answer is the server's answer to the call home. A board that is offered MQTT
// never uses the WebSocket. What was sent once stays in the board until it is
// replaced: to take a token away, send an empty one.
type Answer struct {
	Time       *ServerTime `json:"server_time,omitempty"`
	Firmware   Firmware    `json:"firmware"`
	WebSocket  *SocketPlan `json:"websocket,omitempty"`
	MQTT       *MQTTPlan   `json:"mqtt,omitempty"`
	Activation *Activation `json:"activation,omitempty"`
}

// ServerTime sets a board's clock.
type ServerTime struct {
	Timestamp int64 `json:"timestamp"`       // in milliseconds since 1970
	Offset    int   `json:"timezone_offset"` // in minutes
}

// Firmware is what a board could be running. There is nothing new if URL is empty.
type Firmware struct {
	Version string `json:"version"` // digits and dots; boards crash on anything else
	URL     string `json:"url"`
	Force   int    `json:"force,omitempty"` // 1: even if it is older
}

// SocketPlan is where a board finds the WebSocket.
type SocketPlan struct {
	URL     string  `json:"url"` // see [ParseSocketURL]
	Token   string  `json:"token"`
	Version Framing `json:"version"`
}

// MQTTPlan is where a board finds the MQTT broker.
type MQTTPlan struct {
	Endpoint  string `json:"endpoint"` // see [ParseEndpoint]
	ClientID  string `json:"client_id"`
	Username  string `json:"username"`
	Password  string `json:"password"`
	Publish   string `json:"publish_topic"`
	Subscribe string `json:"subscribe_topic"` // boards do not subscribe; others want it to be there
	Keepalive int    `json:"keepalive"`       // in seconds
}

// Activation makes a board show a code until somebody has typed it in. Without a
// challenge boards do not even ask whether that has happened.
type Activation struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Challenge string `json:"challenge"`
	TimeoutMS int    `json:"timeout_ms"`
}

// Marshal is the answer as JSON, or an error that says what boards would not
// survive.
func (a *Answer) Marshal() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil {
		return nil, err
	}
	if faults := CheckAnswer(b.Bytes()); len(faults) > 0 {
		return nil, fmt.Errorf("boards cannot take this: %s", strings.Join(faults, "; "))
	}
	return b.Bytes(), nil
}

// ParseAnswer reads an answer, and leaves out what has the wrong type, as boards
// do. See [CheckAnswer] for what they do not survive.
func ParseAnswer(body []byte) (Answer, error) {
	var a Answer
	if !lenient(body, &a) {
		return Answer{}, ErrMessage
	}
	return a, nil
}

// CheckAnswer says what is wrong with an answer to the call home, in the sense that
// boards reboot, hang, or cannot talk to anybody afterwards.
func CheckAnswer(body []byte) []string {
	var faults []string
	complain := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if len(body) >= MaxAnswer {
		complain("the body has %d bytes, and boards hang at %d", len(body), MaxAnswer)
	}
	var in map[string]json.RawMessage
	if json.Unmarshal(body, &in) != nil {
		complain("the body is no JSON object")
		return faults
	}
	var a Answer
	lenient(body, &a)
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

// checkSection looks for members that do not fit into a board's memory.
func checkSection(name string, section json.RawMessage) []string {
	var faults []string
	var members map[string]json.RawMessage
	if object(section) == nil || json.Unmarshal(section, &members) != nil {
		return nil
	}
	for key, value := range members {
		var text string
		stored := value[0] == '"' && json.Unmarshal(value, &text) == nil || value[0] == '-' || '0' <= value[0] && value[0] <= '9'
		if stored && len(key) > MaxKey {
			faults = append(faults, fmt.Sprintf("the name %s.%s is longer than %d characters", name, key, MaxKey))
		}
		if len(text) > MaxValue {
			faults = append(faults, fmt.Sprintf("%s.%s is longer than %d bytes", name, key, MaxValue))
		}
	}
	return faults
}

// Newer says whether a version is newer than another, as boards compare them: part
// by part, as numbers. The error says that boards crash on the first.
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

// Proof is the body of a board's question whether somebody typed the code in.
type Proof struct {
	Algorithm string `json:"algorithm,omitempty"` // "hmac-sha256"
	Serial    string `json:"serial_number,omitempty"`
	Challenge string `json:"challenge,omitempty"`
	HMAC      string `json:"hmac,omitempty"` // in hex
}

// ParseProof reads the body. It is empty from boards without a serial number, and
// py-xiaozhi wraps it once more.
func ParseProof(body []byte) Proof {
	var in struct {
		Proof
		Payload *Proof `json:"Payload"`
	}
	lenient(body, &in)
	if in.Payload != nil {
		return *in.Payload
	}
	return in.Proof
}
