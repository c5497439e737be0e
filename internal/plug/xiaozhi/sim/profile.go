package sim

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"patchbay/internal/plug/xiaozhi/wire"
)

// Profile is a firmware, or a chip that behaves in a way of its own.
type Profile struct {
	Name    string
	Version string // of the firmware
	Queue   int    // packets that wait to be played
	// Ahead is how many packets a server may be ahead of what is due.
	Ahead     int
	Codes     bool // errors of tools have codes and are escaped; other texts
	Notify    bool // plays notifications
	UserTools bool // knows tools for people only, and lists them on demand
	Threads   bool // each call of a tool runs beside the loop
	Glyphs    bool // says in its hello what it can show
	WakeAudio bool // sends the wake word, as audio and as text
	Pong      bool // answers pings
	Tight     bool // little memory: dies of bursts
	CutTail   bool // stops playing when the server says stop
}

// The profiles.
var (
	FW194 = Profile{Name: "fw194", Version: "1.9.4", Queue: wire.QueueOld, Ahead: 3, Threads: true, WakeAudio: true, Pong: true, CutTail: true}
	FW242 = Profile{Name: "fw242", Version: "2.4.2", Queue: wire.QueueOld, Ahead: 3, UserTools: true, Glyphs: true, WakeAudio: true, Pong: true}
	FW25  = Profile{Name: "fw25", Version: "2.5.0", Queue: wire.QueueNew, Ahead: 3, UserTools: true, Glyphs: true, WakeAudio: true, Pong: true, Codes: true, Notify: true}
	C3    = Profile{Name: "c3", Version: "2.4.2", Queue: wire.QueueOld, Ahead: 2, UserTools: true, Glyphs: true, Tight: true}
)

// Profiles are all profiles.
func Profiles() []Profile { return []Profile{FW194, FW242, FW25, C3} }

// ProfileNamed finds a profile.
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

// speech are recordings as a board makes them: 60 ms packets of SILK, one byte long
// where nobody speaks. Before each packet are two bytes with its length.
//
//go:embed speech
var speech embed.FS

// They are read once, as ten thousand boards say the same.
var goodMorning, no = recording("good_morning"), recording("no")

// GoodMorning is somebody saying "good morning", in 43 packets. They must not be
// changed.
func GoodMorning() [][]byte { return goodMorning }

// No is somebody saying "no", in 38 packets. They must not be changed.
func No() [][]byte { return no }

func recording(name string) [][]byte {
	data, err := speech.ReadFile("speech/" + name + ".opk")
	if err != nil {
		panic(err) // the file is part of the program
	}
	packets, err := ParseSpeech(data)
	if err != nil {
		panic(err)
	}
	return packets
}

// ParseSpeech takes a recording apart: packets, each after two bytes with its
// length, of which the first is the larger part.
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

// refresh is a packet of silence that is longer, as boards send now and then.
var refresh = no[1]

// silence is what a board sends while nobody speaks.
func silence(i int) []byte {
	if i%7 == 6 {
		return refresh
	}
	return refresh[:1]
}
