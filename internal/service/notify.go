package service

import (
	"net"
	"strings"
	"time"
)

// notifyTimeout is how long a message to systemd may take.
const notifyTimeout = time.Second

// Notifier tells systemd how far the server is, for units with Type=notify (sd_notify(3)). The zero
// value tells nobody.
type Notifier struct{ socket string }

// NewNotifier returns a notifier for the value of the environment variable NOTIFY_SOCKET.
func NewNotifier(socket string) Notifier { return Notifier{socket} }

// Ready tells that the server accepts requests.
func (n Notifier) Ready() error { return n.send("READY=1") }

// Stopping tells that the server has begun to stop.
func (n Notifier) Stopping() error { return n.send("STOPPING=1") }

// send sends a datagram. A name that begins with "@" is in the abstract namespace, which the net
// package also writes so.
func (n Notifier) send(state string) error {
	if !strings.HasPrefix(n.socket, "/") && !strings.HasPrefix(n.socket, "@") {
		return nil
	}
	c, err := net.DialTimeout("unixgram", n.socket, notifyTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(notifyTimeout)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return err
}
