package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
)

// HeaderSize is the length of a datagram's header, in bytes. It is sent in the clear, and is the
// initial counter block of the cipher (xiaozhi-esp32 main/protocols/mqtt_protocol.cc, comment in
// MqttProtocol::OpenAudioChannel, and CryptAesCtr).
const HeaderSize = 16

// DatagramType is the first byte of every datagram, and therefore of the nonce in the server's
// hello, which the board copies (xiaozhi-esp32 main/protocols/mqtt_protocol.cc,
// MqttProtocol::SendAudio and OpenAudioChannel).
const DatagramType = 1

// DownlinkFlags is the flags byte of a server's datagrams. Boards check neither flags nor SSRC
// (xiaozhi-esp32 main/protocols/mqtt_protocol.cc, MqttProtocol::OpenAudioChannel), but the byte
// keeps the key streams of the two directions apart.
const DownlinkFlags = 0x80

// ErrDatagram reports data that is not a board's datagram.
var ErrDatagram = errors.New("no datagram of a board")

// Header is the header of a datagram.
type Header struct {
	Flags     byte
	SSRC      uint32 // number of the session: bytes 4 to 7 of the nonce
	Timestamp uint32 // in ms; the server's choice; boards send 0, or return the server's
	Sequence  uint32 // 1 for the first datagram after a hello
}

// ParseHeader parses the header of a datagram, and checks type and length. The error is
// [ErrDatagram].
func ParseHeader(datagram []byte) (Header, error) {
	if len(datagram) < HeaderSize || datagram[0] != DatagramType ||
		int(binary.BigEndian.Uint16(datagram[2:])) != len(datagram)-HeaderSize {
		return Header{}, ErrDatagram
	}
	return Header{
		Flags:     datagram[1],
		SSRC:      binary.BigEndian.Uint32(datagram[4:]),
		Timestamp: binary.BigEndian.Uint32(datagram[8:]),
		Sequence:  binary.BigEndian.Uint32(datagram[12:]),
	}, nil
}

// Nonce returns the nonce in a server's hello, from which a board makes the headers of its
// datagrams: it overwrites length, timestamp and sequence (xiaozhi-esp32
// main/protocols/mqtt_protocol.cc, MqttProtocol::SendAudio).
func Nonce(ssrc uint32) [HeaderSize]byte {
	var n [HeaderSize]byte
	n[0] = DatagramType
	binary.BigEndian.PutUint32(n[4:], ssrc)
	return n
}

// Cipher encrypts and decrypts the audio of one session with AES-128-CTR. Datagrams are not
// authenticated: their content deserves no more trust than a voice in the room. A Cipher must not
// be used concurrently.
type Cipher struct {
	block cipher.Block
	// Scratch space that avoids allocations.
	counter, stream [aes.BlockSize]byte
}

// NewCipher makes a cipher from a key of 16 bytes.
func NewCipher(key []byte) (*Cipher, error) {
	if len(key) != 16 {
		return nil, errors.New("the key must be 16 bytes long")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return &Cipher{block: block}, nil
}

// Seal appends a datagram. A packet that does not fit into [MaxDatagram] is not appended. Headers
// of packets with equal lengths must differ in more than the sequence: the counter starts at the
// sequence, so that consecutive packets would share most of their key stream.
func (c *Cipher) Seal(b []byte, h Header, opus []byte) []byte {
	if len(opus) > MaxDatagram-HeaderSize {
		return b
	}
	at := len(b)
	b = append(b, DatagramType, h.Flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(opus)))
	b = binary.BigEndian.AppendUint32(b, h.SSRC)
	b = binary.BigEndian.AppendUint32(b, h.Timestamp)
	b = binary.BigEndian.AppendUint32(b, h.Sequence)
	b = append(b, opus...)
	c.xor(b[at+HeaderSize:], b[at:at+HeaderSize])
	return b
}

// Open appends the audio of a datagram. The error is [ErrDatagram].
func (c *Cipher) Open(b, datagram []byte) ([]byte, Header, error) {
	h, err := ParseHeader(datagram)
	if err != nil {
		return b, h, err
	}
	at := len(b)
	b = append(b, datagram[HeaderSize:]...)
	c.xor(b[at:], datagram[:HeaderSize])
	return b, h, nil
}

func (c *Cipher) xor(data, start []byte) {
	copy(c.counter[:], start)
	for len(data) > 0 {
		c.block.Encrypt(c.stream[:], c.counter[:])
		n := subtle.XORBytes(data, data, c.stream[:])
		data = data[n:]
		for i := len(c.counter) - 1; i >= 0; i-- {
			if c.counter[i]++; c.counter[i] != 0 {
				break
			}
		}
	}
}
