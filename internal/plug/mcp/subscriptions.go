package mcp

import (
	"context"
	"errors"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// maxSubscriptions limits the resources that one client subscribes to.
const maxSubscriptions = 1000

func (x *exchange) subscribe(ctx context.Context) ([]byte, *jsonrpc.Error) {
	uri := x.text("uri")
	if uri == "" {
		return nil, invalid("uri is missing: which resource?")
	}
	if e := x.watch(ctx, x.session.listener, uri); e != nil {
		return nil, e
	}
	return []byte("{}"), nil
}

// watch subscribes a listener to a resource, and has its provider watch it.
func (x *exchange) watch(ctx context.Context, l *listener, uri string) *jsonrpc.Error {
	if l.isSubscribed(uri) {
		return nil
	}
	v, e := x.view()
	if e != nil {
		return e
	}
	forget := func() {}
	var failed error
	for _, s := range x.resourceSets(v) {
		f, err := x.server.Hub.Subscribe(ctx, s.ID, x.access.Caller, uri)
		if err == nil {
			forget, failed = f, nil
			break
		}
		if failed == nil && !errors.Is(err, tool.ErrNotFound) {
			failed = err
		}
	}
	if failed != nil {
		return promptError(failed)
	}
	if !l.addSubscription(uri, forget) {
		forget()
		return invalid("%d resources are watched already", maxSubscriptions)
	}
	return nil
}

func (x *exchange) unsubscribe(context.Context) ([]byte, *jsonrpc.Error) {
	x.session.listener.removeSubscription(x.text("uri"))
	return []byte("{}"), nil
}
