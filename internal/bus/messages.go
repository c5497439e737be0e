package bus

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Messages are those of nats.go; receivers get their contents without the signature. On the wire
// the contents are followed by a signature of the subject, the subject for replies, and the
// contents: the servers of a bus may be shared with others, who must not be able to send requests
// in the name of an instance. A replayed message is not distinguished from a new one.

// Signer makes and validates tags of messages with the secret of an installation. It has to be safe
// for concurrent use.
type Signer interface {
	// Tag is a keyed hash, of [TagSize] bytes, of a text followed by data.
	Tag(text string, data []byte) []byte
	CheckTag(text string, data, tag []byte) bool
}

// TagSize is the length of a tag, in bytes.
const TagSize = 16

// signedText is the text that is signed before the contents of a message.
func signedText(subject, reply string) string { return "bus\n" + subject + "\n" + reply + "\n" }

// subject returns the subject on the servers. Reply subjects have the prefix already.
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

// ErrDisconnected means that there is no connection to the bus.
var ErrDisconnected = errors.New("this instance is cut off from the bus")

// PublishRequest sends a message whose responses go to an inbox. Without a connection it returns
// [ErrDisconnected]: nats.go buffers messages until the connection is back, but by then the
// requester has given up, and the request must not be carried out.
func (b *Bus) PublishRequest(subject, inbox string, data []byte) error {
	if inbox != "" && !b.conn.IsConnected() {
		return ErrDisconnected
	}
	m := &nats.Msg{Subject: b.subject(subject), Reply: inbox}
	m.Data = b.sign(m, data)
	return b.conn.PublishMsg(m)
}

// Respond sends a response to a message.
func (b *Bus) Respond(m *nats.Msg, data []byte) error {
	if m.Reply == "" {
		return nats.ErrMsgNoReply
	}
	return b.Publish(m.Reply, data)
}

// Request sends a message and waits for the first response. The error is [nats.ErrNoResponders] if
// nothing is subscribed to the subject.
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

// IsNoResponders reports whether a message is the server's own response to a request on a subject
// without subscribers (status 503: noResponders in nats.go v1.55.0 nats.go).
func IsNoResponders(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == "503" }

// Subscribe calls f with each message, one after another. A subject may end in ".*", which matches
// one further token.
func (b *Bus) Subscribe(subject string, f nats.MsgHandler) (*nats.Subscription, error) {
	return b.conn.Subscribe(b.subject(subject), b.verified(f))
}

// QueueSubscribe is Subscribe for messages each of which goes to one member of a group.
func (b *Bus) QueueSubscribe(subject, group string, f nats.MsgHandler) (*nats.Subscription, error) {
	return b.conn.QueueSubscribe(b.subject(subject), group, b.verified(f))
}

// orderedBuffer is the number of messages that [Bus.SubscribeInOrder] buffers. Further ones are
// dropped and logged.
const orderedBuffer = 4096

// SubscribeInOrder calls f with each message of several subjects, one after another: the messages
// of one sender keep their order across the subjects. stop unsubscribes and waits for f.
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

// Inbox subscribes to a new subject for replies. Messages for which to has no room are dropped and
// logged.
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

// HasSubject reports whether a message has the given subject.
func (b *Bus) HasSubject(m *nats.Msg, subject string) bool { return m.Subject == b.subject(subject) }

// FlushTimeout waits until the server has processed all earlier messages and subscriptions.
func (b *Bus) FlushTimeout(limit time.Duration) error { return b.conn.FlushTimeout(limit) }

// IsConnected reports whether there is a connection to the bus.
func (b *Bus) IsConnected() bool { return b.conn.IsConnected() }

// RejectedCount is the number of messages without a valid signature.
func (b *Bus) RejectedCount() uint64 { return b.rejected.Load() }

// sign returns data, the contents of m, followed by the signature of m.
func (b *Bus) sign(m *nats.Msg, data []byte) []byte {
	if b.signer == nil {
		return data
	}
	out := make([]byte, 0, len(data)+TagSize)
	return append(append(out, data...), b.signer.Tag(signedText(m.Subject, m.Reply), data)...)
}

// verified passes on only messages with a valid signature.
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

// verify removes the signature from a message, and reports whether it is valid.
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
