package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
)

const (
	// resultBytes is the length of the text in the result of a command.
	resultBytes = 64
	// arguments are the parameters of each call.
	arguments = `{"name":"self.audio_speaker.set_volume","arguments":{"volume":50}}`
	// approvalTime is the maximum time until an approval has an effect.
	approvalTime = 5 * time.Second
)

var payload = `{"content":[{"type":"text","text":"` + strings.Repeat("x", resultBytes) + `"}],"isError":false}`

// client is a connection to a gateway after the handshake.
type client struct {
	*link
	ids int64
}

// hello performs the handshake, as a device if there is one.
func (c *client) hello(h wire.Connect, device *wire.Identity) error {
	data, err := c.read()
	if err != nil {
		return err
	}
	f, err := wire.Parse(data)
	if err != nil {
		return err
	}
	challenge, err := wire.ParseChallenge(f.Payload)
	if err != nil {
		return err
	}
	if device != nil {
		device.Sign(&h, challenge)
	}
	_, err = c.request(wire.MethodConnect, h)
	return err
}

// request calls a method and waits for the response. Events are skipped.
func (c *client) request(method string, params any) (json.RawMessage, error) {
	data, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	c.ids++
	id := strconv.FormatInt(c.ids, 10)
	if err := c.send(wire.AppendRequest(nil, id, method, data)); err != nil {
		return nil, err
	}
	for {
		data, err := c.read()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		f, err := wire.Parse(bytes.Clone(data))
		switch {
		case err != nil:
			return nil, err
		case f.ID == id && f.Error != nil:
			return nil, fmt.Errorf("%s: %w", method, f.Error)
		case f.ID == id:
			return f.Payload, nil
		}
	}
}

// dialOperator connects an operator with all scopes.
func dialOperator(ctx context.Context, p *process) (*client, error) {
	l, err := dial(ctx, p.URL, readBuffer)
	if err != nil {
		return nil, err
	}
	c := &client{link: l}
	if err := c.hello(sim.Operator(p.Key, wire.ScopeRead, wire.ScopeWrite, wire.ScopePairing, wire.ScopeAdmin),
		nil); err != nil {
		c.close()
		return nil, fmt.Errorf("the operator: %w", err)
	}
	return c, nil
}

// dialNode connects a node.
func dialNode(ctx context.Context, p *process, me wire.Identity, buffer int) (*client, error) {
	l, err := dial(ctx, p.URL, buffer)
	if err != nil {
		return nil, err
	}
	h := wire.Connect{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, Role: wire.RoleNode, Caps: []string{wire.CapMCP},
		Commands: commands, Auth: &wire.Auth{Token: p.Key},
		Client: wire.Client{ID: wire.ClientNode, DisplayName: "Bench", Version: "1", Platform: wire.Linux,
			DeviceFamily: "Linux", Mode: wire.ModeNode},
	}
	c := &client{link: l}
	if err := c.hello(h, &me); err != nil {
		c.close()
		return nil, fmt.Errorf("the node: %w", err)
	}
	return c, nil
}

// approve approves the commands of a node.
func (c *client) approve(node string) error {
	list, err := c.request(wire.MethodNodePairList, struct{}{})
	if err != nil {
		return err
	}
	var pairs wire.NodePairs
	if err := json.Unmarshal(list, &pairs); err != nil {
		return err
	}
	for _, p := range pairs.Pending {
		if p.NodeID == node {
			_, err = c.request(wire.MethodNodeApprove, map[string]string{"requestId": p.RequestID})
			return err
		}
	}
	return nil // it was approved before
}

// pair is an operator and a node that it calls.
type pair struct {
	operator, node *client
	calls          *calls
	served         chan error // error with which the node has ended
}

// open connects a pair, and calls the command once.
func open(ctx context.Context, c *contender) (*pair, error) {
	p := &pair{served: make(chan error, 1)}
	var err error
	node := strings.Repeat("0", 64)
	if c.at.bare {
		p.operator, p.node, err = openBare(ctx, c.at)
	} else {
		me := wire.NewIdentity()
		node = me.ID()
		p.operator, p.node, err = openPaired(ctx, c.at, me)
	}
	if err != nil {
		return nil, err
	}
	answer := answerInvoke
	if c.at.bare {
		answer = answerBare
	}
	go func() { p.served <- serveNode(p.node, node, answer) }()
	p.calls = newCalls(p.operator, node, c.command)
	for until := time.Now().Add(approvalTime); ; time.Sleep(100 * time.Millisecond) {
		if _, err = p.calls.run(1, time.Now()); err == nil || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func openBare(ctx context.Context, at *process) (operator, node *client, err error) {
	o, err := dial(ctx, at.URL+operatorPath, readBuffer)
	if err != nil {
		return nil, nil, err
	}
	n, err := dial(ctx, at.URL+nodePath, readBuffer)
	if err != nil {
		o.close()
		return nil, nil, err
	}
	return &client{link: o}, &client{link: n}, nil
}

func openPaired(ctx context.Context, at *process, me wire.Identity) (operator, node *client, err error) {
	if operator, err = dialOperator(ctx, at); err != nil {
		return nil, nil, err
	}
	if node, err = dialNode(ctx, at, me, readBuffer); err == nil {
		err = operator.approve(me.ID())
	}
	if err != nil {
		operator.close()
	}
	return operator, node, err
}

// close closes both connections, and waits for the node.
func (p *pair) close() {
	p.operator.close()
	p.node.close()
	<-p.served
}

// limit sets the deadline of both connections.
func (p *pair) limit(at time.Time) {
	p.operator.limit(at)
	p.node.limit(at)
}

// serveNode handles calls until the connection ends.
func serveNode(c *client, node string, answer func(b, frame []byte, node string) []byte) error {
	var b []byte
	for {
		frame, err := c.read()
		if err != nil {
			return err
		}
		if b = answer(b[:0], frame, node); len(b) > 0 {
			c.put(b)
		}
		if !c.more() {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
}

// answerInvoke appends the result of the command that a gateway requests, or nothing.
func answerInvoke(b, frame []byte, node string) []byte {
	_, rest, found := bytes.Cut(frame, []byte(`"event":"node.invoke.request","payload":{"id":"`))
	end := bytes.IndexByte(rest, '"')
	if !found || end < 0 {
		return b
	}
	b = append(append(b, `{"type":"req","id":"r","method":"node.invoke.result","params":{"id":"`...), rest[:end]...)
	b = append(append(b, `","nodeId":"`...), node...)
	b = append(append(b, `","ok":true,"payload":`...), payload...)
	return append(b, "}}"...)
}

// answerBare appends the response that a gateway would send to the operator.
func answerBare(b, frame []byte, node string) []byte {
	_, rest, found := bytes.Cut(frame, []byte(`"id":"`))
	end := bytes.IndexByte(rest, '"')
	if !found || end < 0 {
		return b
	}
	b = append(append(b, `{"type":"res","id":"`...), rest[:end]...)
	b = append(append(b, `","ok":true,"payload":{"ok":true,"nodeId":"`...), node...)
	b = append(append(b, `","command":"mcp.tools.call","payload":`...), payload...)
	return append(b, `,"payloadJSON":null}}`...)
}

// calls calls a command repeatedly.
type calls struct {
	*client
	head, tail []byte // of requests, before and after the idempotency key
	began      map[int64]time.Time
	parts      [2][]byte // of a checked response, before and after its id
	b          []byte
}

var errAnswer = errors.New("a wrong answer")

func newCalls(c *client, node, command string) *calls {
	head := fmt.Sprintf(`","method":"node.invoke","params":{"nodeId":%q,"command":%q,"params":%s,"timeoutMs":30000,"idempotencyKey":"%d-`, node, command, arguments, time.Now().UnixNano())
	return &calls{client: c, head: []byte(head), tail: []byte(`"}}`), began: map[int64]time.Time{}}
}

// begin appends a request to the output buffer.
func (c *calls) begin() {
	c.ids++
	b := append(c.b[:0], `{"type":"req","id":"`...)
	b = strconv.AppendInt(b, c.ids, 10)
	b = append(b, c.head...)
	b = strconv.AppendInt(b, c.ids, 10)
	c.b = append(b, c.tail...)
	c.began[c.ids] = time.Now()
	c.put(c.b)
}

// run keeps the given number of calls running until a time, at least one round, and returns the
// duration of each.
func (c *calls) run(at int, until time.Time) ([]time.Duration, error) {
	clear(c.began)
	for range at {
		c.begin()
	}
	var took []time.Duration
	for len(c.began) > 0 {
		if !c.more() {
			if err := c.flush(); err != nil {
				return nil, err
			}
		}
		frame, err := c.read()
		if err != nil {
			return nil, err
		}
		id, err := c.answered(frame)
		if err != nil {
			return nil, err
		}
		began, ok := c.began[id]
		if !ok {
			continue // an unknown id
		}
		delete(c.began, id)
		now := time.Now()
		took = append(took, now.Sub(began))
		if now.Before(until) {
			c.begin()
		}
	}
	return took, nil
}

// answered returns the id of the call to which a frame is the response, or 0. A frame that differs
// from a checked one only in its id is not parsed.
func (c *calls) answered(frame []byte) (int64, error) {
	if bytes.HasPrefix(frame, []byte(`{"type":"event"`)) {
		return 0, nil
	}
	if rest, ok := bytes.CutPrefix(frame, c.parts[0]); ok && c.parts[0] != nil {
		if end := bytes.IndexByte(rest, '"'); end > 0 && bytes.Equal(rest[end:], c.parts[1]) {
			return strconv.ParseInt(string(rest[:end]), 10, 64)
		}
	}
	f, err := wire.Parse(frame)
	if err != nil {
		return 0, err
	}
	if f.Error != nil {
		return 0, f.Error
	}
	var got struct {
		OK      bool            `json:"ok"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(f.Payload, &got) != nil || !got.OK || string(got.Payload) != payload {
		return 0, fmt.Errorf("%w: %.300s", errAnswer, frame)
	}
	if before, behind, ok := bytes.Cut(frame, []byte(`"`+f.ID+`"`)); ok {
		c.parts = [2][]byte{append(bytes.Clone(before), '"'), append([]byte(`"`), behind...)}
	}
	return strconv.ParseInt(f.ID, 10, 64)
}
