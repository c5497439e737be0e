// Package wire is what a XiaoZhi voice board and its server say to each other:
// binary audio frames, datagrams, JSON messages, and the answer to the board's call
// home. Both sides use it. It does no input and no output.
//
// Readers are lenient, because boards of many firmware versions and many forks of
// them are out there: a member that is missing or of the wrong type is as if it
// were not there. Writers are strict, because the firmware is not: it crashes on
// a missing member, hangs on a long body, and reads beyond a wrong length.
package wire

import "time"

// What boards hold to. Wherever a number is here, the firmware has it built in.
const (
	// MaxAnswer bounds the body of every HTTP answer a board reads, in bytes, and is
	// itself too long: many boards hang for ever on a body of 8 KiB.
	MaxAnswer = 8192
	// MaxKey is how long the name of a member of the sections websocket and mqtt may
	// be. A longer one makes the board reboot for ever.
	MaxKey = 15
	// MaxValue is how long a text in these sections may be, in bytes, with the same
	// end.
	MaxValue = 4000
	// MaxText bounds a text frame that a board sends. It cannot send longer ones.
	MaxText = 65535
	// MaxList is the length in bytes at which a board ends a page of its tools.
	MaxList = 8000
	// MaxPacket bounds an Opus packet in a frame, in bytes: the length field of
	// frames and datagrams has 16 bits.
	MaxPacket = 65535
	// MaxDatagram is what a board's UDP buffer takes, in bytes.
	MaxDatagram = 1500
	// MaxID is the largest id that a board gives back unchanged.
	MaxID = 1<<31 - 1

	// HelloTimeout is how long a board waits for the connection, and then again for
	// the server's hello.
	HelloTimeout = 10 * time.Second
	// ChannelTimeout is how long a board believes in a connection on which nothing
	// comes. Pings are nothing.
	ChannelTimeout = 120 * time.Second
	// VisionTimeout is how long a board waits for what is seen in a photo.
	VisionTimeout = 30 * time.Second
	// DefaultKeepalive is how often an MQTT board is heard of, unless the server
	// tells it otherwise.
	DefaultKeepalive = 240 * time.Second

	// UplinkRate is the sample rate of what boards record, in Hz, and UplinkFrame
	// the length of their packets.
	UplinkRate  = 16000
	UplinkFrame = 60 * time.Millisecond
	// DownlinkRate and DownlinkFrame are what boards play if the server's hello does
	// not say.
	DownlinkRate  = 24000
	DownlinkFrame = 60 * time.Millisecond

	// QueueOld is how many packets a board keeps for playing, up to firmware 2.4;
	// QueueNew is the same since 2.5. What comes on top is thrown away.
	QueueOld = 40
	QueueNew = 20
)

// The headers by which a board says who it is, in HTTP requests and in the
// WebSocket handshake. Web pages send them as query parameters, in lower case.
const (
	HeaderDevice     = "Device-Id"          // MAC address, lower case, with colons
	HeaderClient     = "Client-Id"          // a UUID that survives until the board is erased
	HeaderFraming    = "Protocol-Version"   // the Framing of a WebSocket
	HeaderActivation = "Activation-Version" // 2 with a serial number, 1 without
	HeaderSerial     = "Serial-Number"      // only with one
)

// The transports of a hello.
const (
	WebSocket = "websocket"
	UDP       = "udp" // audio in datagrams, messages over MQTT
)
