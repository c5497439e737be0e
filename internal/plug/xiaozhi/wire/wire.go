// Package wire defines the messages between a XiaoZhi voice board and its server: binary audio
// frames, datagrams, JSON messages, and the OTA request and response. Both sides use it. It does no
// I/O.
//
// Readers are lenient, since boards run many firmware versions and forks: a member that is missing
// or of the wrong type counts as absent. Writers are strict, since the firmware is not: it crashes
// on a missing member, hangs on a long body, and reads beyond the end of a frame with a wrong
// length.
//
// Comments here and in the other packages for boards cite these sources, unless they name another
// revision:
//
//	xiaozhi-esp32  the firmware: github.com/78/xiaozhi-esp32 at 4814202 (2.4.2). Firmware 2.5
//	               is the same repository at 77500b8.
//	esp-ml307      its network component: github.com/78/esp-ml307 at 7bc2fd6 (3.6.4).
//	mqtt-gateway   a server for boards on MQTT: github.com/xinnan-tech/xiaozhi-mqtt-gateway at
//	               93f026a. It derives from the firmware author's own server.
//	py-xiaozhi     a program that stands in for a board: github.com/huangjunsen0406/py-xiaozhi
//	               at 95bd792.
package wire

import "time"

// Limits built into the firmware (xiaozhi-esp32) and its network component (esp-ml307).
const (
	// MaxHTTPBody is the exclusive limit of every HTTP response body that a board reads, in bytes:
	// many boards hang for ever on a body of 8 KiB (esp-ml307 include/http_client.h,
	// MAX_BODY_CHUNKS_SIZE, and src/http_client.cc, HttpClient::ReadAll; issue #54, fixed in
	// 3.7.1).
	MaxHTTPBody = 8192
	// MaxKey is the maximum length of a member's name in the sections websocket and mqtt: that of a
	// key of ESP-IDF's NVS (NVS_KEY_NAME_MAX_SIZE, less the zero byte). A longer one puts the board
	// into a reboot loop (xiaozhi-esp32 main/settings.cc, Settings::SetString).
	MaxKey = 15
	// MaxValue is the maximum length of a string in these sections, in bytes, with the same
	// consequence: NVS keeps strings of 4000 bytes, with the zero byte at their end (ESP-IDF,
	// Non-Volatile Storage Library).
	MaxValue = 3999
	// MaxText is the longest text frame that a board can send, in bytes (esp-ml307
	// src/web_socket.cc, WebSocket::Send).
	MaxText = 65535
	// MaxList is the length at which a board ends a page of its tools, in bytes (xiaozhi-esp32
	// main/mcp_server.cc, McpServer::GetToolsList).
	MaxList = 8000
	// MaxPacket limits an Opus packet in a frame, in bytes: the length field of BinaryProtocol3 and
	// of datagrams has 16 bits (xiaozhi-esp32 main/protocols/protocol.h, mqtt_protocol.cc).
	MaxPacket = 65535
	// MaxDatagram is the size of a board's UDP buffer, in bytes (esp-ml307 src/esp/esp_udp.cc).
	MaxDatagram = 1500
	// MaxID is the largest request id that a board returns unchanged: it reads cJSON's valueint, an
	// int that saturates (xiaozhi-esp32 main/mcp_server.cc, McpServer::ParseMessage).
	MaxID = 1<<31 - 1

	// HelloTimeout is how long a board waits for the connection, and then for the server's hello
	// (xiaozhi-esp32 main/protocols/websocket_protocol.cc and mqtt_protocol.cc, OpenAudioChannel;
	// esp-ml307 src/esp/esp_mqtt.h, MQTT_CONNECT_TIMEOUT_MS).
	HelloTimeout = 10 * time.Second
	// ChannelTimeout is how long a board considers a connection alive on which no data arrives;
	// pings do not count (xiaozhi-esp32 main/protocols/protocol.cc, Protocol::IsTimeout).
	ChannelTimeout = 120 * time.Second
	// VisionTimeout is how long a board waits for the response to a photo: the timeout of its HTTP
	// client (esp-ml307 include/http_client.h, timeout_ms_).
	VisionTimeout = 30 * time.Second
	// DefaultKeepalive is the MQTT keepalive, unless the OTA response sets it (xiaozhi-esp32
	// main/protocols/mqtt_protocol.cc, MqttProtocol::StartMqttClient).
	DefaultKeepalive = 240 * time.Second

	// UplinkRate is the sample rate of recordings, in Hz, and UplinkFrame the length of their
	// packets (xiaozhi-esp32 main/audio/audio_service.h, OPUS_FRAME_DURATION_MS; audio_params in
	// main/protocols/websocket_protocol.cc, WebsocketProtocol::GetHelloMessage).
	UplinkRate  = 16000
	UplinkFrame = 60 * time.Millisecond
	// DownlinkRate and DownlinkFrame are the playback format if the server's hello has none
	// (xiaozhi-esp32 main/protocols/protocol.h, server_sample_rate_ and server_frame_duration_).
	DownlinkRate  = 24000
	DownlinkFrame = 60 * time.Millisecond

	// QueueOld is the capacity of the playback queue, in packets, up to firmware 2.4 (xiaozhi-esp32
	// main/audio/audio_service.h, MAX_DECODE_PACKETS_IN_QUEUE); QueueNew is that since 2.5 (pull
	// request #2191). Packets that do not fit are dropped (main/audio/audio_service.cc,
	// AudioService::PushPacketToDecodeQueue).
	QueueOld = 40
	QueueNew = 20
)

// Headers that identify a board in HTTP requests (xiaozhi-esp32 main/ota.cc, Ota::SetupHttp) and in
// the WebSocket handshake (main/protocols/websocket_protocol.cc,
// WebsocketProtocol::OpenAudioChannel). Web pages send them as query parameters in lower case.
const (
	HeaderDevice     = "Device-Id"          // MAC address, lower case, with colons
	HeaderClient     = "Client-Id"          // a UUID, kept until the flash is erased
	HeaderFraming    = "Protocol-Version"   // the Framing of a WebSocket
	HeaderActivation = "Activation-Version" // 2 with a serial number, 1 without
	HeaderSerial     = "Serial-Number"      // only on boards with a serial number
)

// Values of transport in a hello (GetHelloMessage of WebsocketProtocol and MqttProtocol).
const (
	WebSocket = "websocket"
	UDP       = "udp" // audio in datagrams, messages over MQTT
)
