// Package wire defines the messages between a XiaoZhi voice board and its server: binary audio
// frames, datagrams, JSON messages, and the OTA request and response. Both sides use it. It does no
// I/O.
//
// Readers are lenient, since boards run many firmware versions and forks: a member that is missing
// or of the wrong type counts as absent. Writers are strict, since the firmware is not: it crashes
// on a missing member, hangs on a long body, and reads beyond the end of a frame with a wrong
// length.
package wire

import "time"

// Limits built into the firmware (xiaozhi-esp32) and its network component (esp-ml307).
const (
	// MaxHTTPBody is the exclusive limit of every HTTP response body that a board reads, in bytes:
	// many boards hang for ever on a body of 8 KiB (esp-ml307 #54, fixed in 3.7.1).
	MaxHTTPBody = 8192
	// MaxKey is the maximum length of a member's name in the sections websocket and mqtt. A longer
	// one puts the board into a reboot loop (xiaozhi-esp32 main/settings.cc).
	MaxKey = 15
	// MaxValue is the maximum length of a string in these sections, in bytes, with the same
	// consequence.
	MaxValue = 4000
	// MaxText is the longest text frame that a board can send, in bytes.
	MaxText = 65535
	// MaxList is the length at which a board ends a page of its tools, in bytes (xiaozhi-esp32
	// main/mcp_server.cc).
	MaxList = 8000
	// MaxPacket limits an Opus packet in a frame, in bytes: the length field of frames and
	// datagrams has 16 bits.
	MaxPacket = 65535
	// MaxDatagram is the size of a board's UDP buffer, in bytes.
	MaxDatagram = 1500
	// MaxID is the largest request id that a board returns unchanged (cJSON's valueint).
	MaxID = 1<<31 - 1

	// HelloTimeout is how long a board waits for the connection, and then for the server's hello.
	HelloTimeout = 10 * time.Second
	// ChannelTimeout is how long a board considers a connection alive on which no data arrives;
	// pings do not count (xiaozhi-esp32 main/protocols/protocol.cc).
	ChannelTimeout = 120 * time.Second
	// VisionTimeout is how long a board waits for the response to a photo.
	VisionTimeout = 30 * time.Second
	// DefaultKeepalive is the MQTT keepalive, unless the OTA response sets it (xiaozhi-esp32
	// main/protocols/mqtt_protocol.cc).
	DefaultKeepalive = 240 * time.Second

	// UplinkRate is the sample rate of recordings, in Hz, and UplinkFrame the length of their
	// packets.
	UplinkRate  = 16000
	UplinkFrame = 60 * time.Millisecond
	// DownlinkRate and DownlinkFrame are the playback format if the server's hello has none.
	DownlinkRate  = 24000
	DownlinkFrame = 60 * time.Millisecond

	// QueueOld is the capacity of the playback queue, in packets, up to firmware 2.4; QueueNew is
	// that since 2.5. Packets that do not fit are dropped (xiaozhi-esp32
	// main/audio/audio_service.cc).
	QueueOld = 40
	QueueNew = 20
)

// Headers that identify a board in HTTP requests and in the WebSocket handshake. Web pages send
// them as query parameters in lower case.
const (
	HeaderDevice     = "Device-Id"          // MAC address, lower case, with colons
	HeaderClient     = "Client-Id"          // a UUID, kept until the flash is erased
	HeaderFraming    = "Protocol-Version"   // the Framing of a WebSocket
	HeaderActivation = "Activation-Version" // 2 with a serial number, 1 without
	HeaderSerial     = "Serial-Number"      // only on boards with a serial number
)

// Values of transport in a hello.
const (
	WebSocket = "websocket"
	UDP       = "udp" // audio in datagrams, messages over MQTT
)
