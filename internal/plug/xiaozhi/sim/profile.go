package sim

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Profile describes a firmware version, or a chip with its own quirks.
type Profile struct {
	Name    string
	Version string // of the firmware
	Queue   int    // capacity of the playback queue, in packets
	// Ahead is how many packets the server may be ahead of the playback.
	Ahead     int
	Codes     bool // tool errors have codes, are escaped, and have other texts
	Notify    bool // plays notifications
	UserTools bool // has user-only tools, and lists them on demand
	Threads   bool // each tool call runs in a thread of its own
	Glyphs    bool // sends glyph_push and text_font in its hello
	WakeAudio bool // sends the wake word, as audio and as listen/detect
	Pong      bool // answers pings
	Tight     bool // little memory: crashes on bursts
	CutTail   bool // clears the playback queue at tts/stop
}

// Profiles of firmware versions and chips. The queues are in package wire. User-only tools came
// with 2.0 and threads of tool calls (stackSize) were in 1.7 to 1.9.4; codes and notifications came
// with 2.5 (xiaozhi-esp32 main/mcp_server.cc and docs/notify.md, at those versions). Boards with an
// ESP32-C3 answer no pings (issue #3348 of xinnan-tech/xiaozhi-esp32-server), crash on bursts
// (issue #3349) and do not set CONFIG_SEND_WAKE_WORD_DATA (xiaozhi-esp32 main/Kconfig.projbuild).
var (
	FW194 = Profile{Name: "fw194", Version: "1.9.4", Queue: wire.QueueOld, Ahead: 3, Threads: true, WakeAudio: true,
		Pong: true, CutTail: true}
	FW242 = Profile{Name: "fw242", Version: "2.4.2", Queue: wire.QueueOld, Ahead: 3, UserTools: true, Glyphs: true,
		WakeAudio: true, Pong: true}
	FW25 = Profile{Name: "fw25", Version: "2.5.0", Queue: wire.QueueNew, Ahead: 3, UserTools: true, Glyphs: true,
		WakeAudio: true, Pong: true, Codes: true, Notify: true}
	C3 = Profile{Name: "c3", Version: "2.4.2", Queue: wire.QueueOld, Ahead: 2, UserTools: true, Glyphs: true,
		Tight: true}
)

// Profiles returns all profiles.
func Profiles() []Profile { return []Profile{FW194, FW242, FW25, C3} }

// ProfileNamed returns the profile with a name.
func ProfileNamed(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("no profile %q; there are %s", name, strings.Join(names, ", "))
}

// speech has recordings as a board makes them: 60 ms packets of SILK, one byte long in silence.
// Each packet is preceded by its length in two bytes.
//
//go:embed speech
var speech embed.FS

// Parsed once and shared by all boards.
var goodMorning, no = recording("good_morning"), recording("no")

// GoodMorning returns the speech "good morning", in 43 packets. They must not be changed.
func GoodMorning() [][]byte { return goodMorning }

// No returns the speech "no", in 38 packets. They must not be changed.
func No() [][]byte { return no }

func recording(name string) [][]byte {
	data, err := speech.ReadFile("speech/" + name + ".opk")
	if err != nil {
		panic(err) // the file is embedded
	}
	packets, err := ParseSpeech(data)
	if err != nil {
		panic(err)
	}
	return packets
}

// ParseSpeech splits a recording into packets, each preceded by its length in two bytes,
// big-endian.
func ParseSpeech(data []byte) ([][]byte, error) {
	var out [][]byte
	for len(data) > 0 {
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return nil, errors.New("the recording ends within a packet")
		}
		n := int(binary.BigEndian.Uint16(data))
		out = append(out, data[2:2+n:2+n])
		data = data[2+n:]
	}
	return out, nil
}

// refresh is a longer packet of silence, which DTX encoders send now and then.
var refresh = no[1]

// silence returns the i-th packet of silence.
func silence(i int) []byte {
	if i%7 == 6 {
		return refresh
	}
	return refresh[:1]
}
