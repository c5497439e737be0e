package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// A message is what nats.go has for one, and comes with its contents alone. On the wire
// they end in a signature of its subject, the subject for replies, and the contents: the
// servers of a bus may be shared with others, who must not be able to ask as if they were
// an instance. A message that is sent again later by somebody who has heard it is not
// told from a new one.

// Signer makes and checks tags of messages, with the secret of an installation. It has to
// be safe for concurrent use.
type Signer interface {
	// Tag is a keyed hash, of [TagSize] bytes, of a text and the contents behind it.
	Tag(text string, data []byte) []byte
	CheckTag(text string, data, tag []byte) bool
}

// TagSize is the length of a tag, in bytes.
const TagSize = 16

// signedText is the text that is signed for a message, before its contents.
func signedText(subject, reply string) string { return "bus\n" + subject + "\n" + reply + "\n" }

// subject is a subject as the servers know it. Those for replies are given whole.
func (b *Bus) subject(name string) string {
	if strings.HasPrefix(name, b.prefix) {
		return name
	}
	return b.prefix + name
}

// Publish sends a message.
func (b *Bus) Publish(subject string, data []byte) error {
	return b.PublishRequest(subject, "", data)
}

// ErrDisconnected says that there is no connection to the bus at the moment.
var ErrDisconnected = errors.New("this instance is cut off from the bus")

// PublishRequest sends a message whose answers go to an inbox. While there is no connection
// it returns [ErrDisconnected]: other messages are sent when it is back, but whoever asks has gone
// by then, and must not have something done.
func (b *Bus) PublishRequest(subject, inbox string, data []byte) error {
	if inbox != "" && !b.conn.IsConnected() {
		return ErrDisconnected
	}
	m := &nats.Msg{Subject: b.subject(subject), Reply: inbox}
	m.Data = b.sign(m, data)
	return b.conn.PublishMsg(m)
}

// Respond answers a message.
func (b *Bus) Respond(m *nats.Msg, data []byte) error {
	if m.Reply == "" {
		return nats.ErrMsgNoReply
	}
	return b.Publish(m.Reply, data)
}

// Request sends a message and waits for the first answer. The error is
// [nats.ErrNoResponders] if nobody listens to the subject.
func (b *Bus) Request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	answers := make(chan *nats.Msg, 1)
	inbox, sub, err := b.Inbox(answers)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
	if err := b.PublishRequest(subject, inbox, data); err != nil {
		return nil, err
	}
	select {
	case m := <-answers:
		if IsNoResponders(m) {
			return nil, nats.ErrNoResponders
		}
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// IsNoResponders reports whether a message is the bus's own answer, that nobody listens to the
// subject of a request.
func IsNoResponders(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == "503" }

// Subscribe has f called with each message, one after another. A subject may end in ".*",
// for all that have one part more.
func (b *Bus) Subscribe(subject string, f nats.MsgHandler) (*nats.Subscription, error) {
	return b.conn.Subscribe(b.subject(subject), b.verified(f))
}

// QueueSubscribe is Subscribe for messages each of which one member of a group gets.
func (b *Bus) QueueSubscribe(subject, group string, f nats.MsgHandler) (*nats.Subscription, error) {
	return b.conn.QueueSubscribe(b.subject(subject), group, b.verified(f))
}

// orderedBuffer is how many messages may wait in [Bus.SubscribeInOrder]. Those for which there is
// no room are dropped, and logged.
const orderedBuffer = 4096

// SubscribeInOrder has f called with each message of several subjects, one after another: what
// one sender has sent comes in the order in which it was sent, whatever the subjects are. Stop
// ends that, and waits for f.
func (b *Bus) SubscribeInOrder(f nats.MsgHandler, subjects ...string) (stop func(), err error) {
	came, end := make(chan *nats.Msg, orderedBuffer), make(chan struct{})
	var subs []*nats.Subscription
	unsubscribe := func() {
		for _, s := range subs {
			s.Unsubscribe() //nolint:errcheck // fails only when the bus is closed
		}
	}
	for _, subject := range subjects {
		s, err := b.conn.ChanSubscribe(b.subject(subject), came)
		if err != nil {
			unsubscribe()
			return nil, err
		}
		subs = append(subs, s)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for take := b.verified(f); ; {
			select {
			case m := <-came:
				take(m)
			case <-end:
				return
			}
		}
	})
	return func() {
		unsubscribe()
		close(end)
		work.Wait()
	}, nil
}

// Inbox subscribes to a new subject for replies. Messages for which there is no room in to
// are dropped, and logged.
func (b *Bus) Inbox(to chan<- *nats.Msg) (inbox string, sub *nats.Subscription, err error) {
	inbox = b.conn.NewInbox()
	sub, err = b.Subscribe(inbox, func(m *nats.Msg) {
		select {
		case to <- m:
		default:
			b.log.Warn("bus", "error", nats.ErrSlowConsumer, "subject", inbox)
		}
	})
	return inbox, sub, err
}

// HasSubject reports whether a message came by a subject.
func (b *Bus) HasSubject(m *nats.Msg, subject string) bool { return m.Subject == b.subject(subject) }

// FlushTimeout waits until the bus knows of all that was sent and subscribed.
func (b *Bus) FlushTimeout(limit time.Duration) error { return b.conn.FlushTimeout(limit) }

// IsConnected reports whether there is a connection at this moment.
func (b *Bus) IsConnected() bool { return b.conn.IsConnected() }

// RejectedCount counts messages that no key of the installation had signed.
func (b *Bus) RejectedCount() uint64 { return b.rejected.Load() }

// sign returns data with the signature of the message that it is the contents of.
func (b *Bus) sign(m *nats.Msg, data []byte) []byte {
	if b.signer == nil {
		return data
	}
	out := make([]byte, 0, len(data)+TagSize)
	return append(append(out, data...), b.signer.Tag(signedText(m.Subject, m.Reply), data)...)
}

// verified hands messages on that the installation has signed.
func (b *Bus) verified(f nats.MsgHandler) nats.MsgHandler {
	if b.signer == nil {
		return f
	}
	return func(m *nats.Msg) {
		if !IsNoResponders(m) && !b.verify(m) {
			b.rejected.Add(1)
			now := time.Now().Unix()
			if last := b.warned.Load(); now-last >= 60 && b.warned.CompareAndSwap(last, now) {
				b.log.Warn("messages on the bus that this installation has not signed are not heard; who else uses its subjects?", "subject", m.Subject, "refused", b.rejected.Load())
			}
			return
		}
		f(m)
	}
}

// verify takes the signature off a message, and reports whether it is good.
func (b *Bus) verify(m *nats.Msg) bool {
	at := len(m.Data) - TagSize
	if at < 0 {
		return false
	}
	data, tag := m.Data[:at:at], m.Data[at:]
	if !b.signer.CheckTag(signedText(m.Subject, m.Reply), data, tag) {
		return false
	}
	m.Data = data
	return true
}
