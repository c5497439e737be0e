package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
)

// Operation describes an operation of /api/v1.
type Operation struct {
	Method, Path string // Path has wildcards of [http.ServeMux]
	Summary      string // a sentence without its full stop
	// In and Out are the types of the input and of the output. Fields of In tagged path or query
	// are in the URL, the others in the body; nil: nothing.
	In, Out reflect.Type
	// Kind is the media type of the response, if it is not JSON, and Takes that of the body.
	Kind, Takes string
	// Headers are the request headers that it reads, except the key's.
	Headers []string
	Open    bool // needs no key
	// Scope is a further scope of keys that may call it, beside operator and admin.
	Scope string
	// basic reports whether the key may also be the password of Basic authentication, which
	// calendar programs have.
	basic bool
	// limit is how long a [Client] waits for the response; 0: callLimit.
	limit time.Duration
	// body is the maximum size of the body in bytes; 0: maxBody.
	body int64
	// reply is the maximum size of the response for a [Client], in bytes; 0: maxReply.
	reply int64
}

// Op is an operation with typed input and output. The [Server] serves it, and a [Client] calls it.
type Op[In, Out any] struct {
	Operation
	do useCase[In, Out]
}

// useCase is a method of the control service.
type useCase[In, Out any] func(*control.Service, context.Context, control.Caller, In) (Out, error)

// define returns the operation that does a use case. The pattern is its method and path.
func define[In, Out any](pattern, summary string, do useCase[In, Out]) *Op[In, Out] {
	method, path, _ := strings.Cut(pattern, " ")
	return &Op[In, Out]{Operation{Method: method, Path: path, Summary: summary, In: reflect.TypeFor[In](),
		Out: reflect.TypeFor[Out]()}, do}
}

// lasting sets how long clients wait for the response.
func (o *Op[In, Out]) lasting(limit time.Duration) *Op[In, Out] {
	o.limit = limit
	return o
}

// taking sets the maximum size of the body in bytes.
func (o *Op[In, Out]) taking(body int64) *Op[In, Out] {
	o.body = body
	return o
}

// replying sets the maximum size of the response in bytes.
func (o *Op[In, Out]) replying(most int64) *Op[In, Out] {
	o.reply = most
	return o
}

// maxBody limits the body of an operation, in bytes.
const maxBody = 1 << 20

// operation is an [Op] of any types.
type operation interface{ serve(s *Server) }

// operate serves operations.
func (s *Server) operate(list ...operation) {
	for _, o := range list {
		o.serve(s)
	}
}

// serve adds the operation to a server.
func (o *Op[In, Out]) serve(s *Server) {
	s.handleTyped(&o.Operation, func() any { return new(In) },
		func(ctx context.Context, c control.Caller, in any) (any, error) {
			return o.do(s.Service, ctx, c, *in.(*In))
		})
}

// handleTyped adds an operation that does a use case with its input, which newInput returns a
// pointer to. It is apart from [Op.serve] so that the program has it once, and not for each pair of
// types, which inlining it would bring back.
//
//go:noinline
func (s *Server) handleTyped(o *Operation, newInput func() any,
	do func(context.Context, control.Caller, any) (any, error)) {
	s.handle(*o, func(w http.ResponseWriter, r *http.Request, c control.Caller) {
		in := newInput()
		if err := readInput(w, r, in, cmp.Or(o.body, maxBody)); err != nil {
			fail(w, problem.Invalid, i18n.Localize(err, lang(r)))
			return
		}
		out, err := do(r.Context(), c, in)
		if err != nil {
			s.fails(w, r, err)
			return
		}
		reply(w, out)
	})
}

// handler handles the requests of an operation.
type handler = func(http.ResponseWriter, *http.Request, control.Caller)

// handle adds an operation with its handler.
func (s *Server) handle(o Operation, h handler) {
	s.operations = append(s.operations, o)
	s.mux.HandleFunc(o.Method+" "+o.Path, s.guarded(o, h))
}

// document adds an operation with its own handler. In and out are values of the types of its input
// and output; nil: nothing, or nothing in JSON. The returned pointer is valid until the next
// operation is added.
func (s *Server) document(pattern, summary, kind string, in, out any, h handler) *Operation {
	method, path, _ := strings.Cut(pattern, " ")
	s.handle(Operation{
		Method: method, Path: path, Summary: summary, In: reflect.TypeOf(in), Out: reflect.TypeOf(out), Kind: kind,
	}, h)
	return &s.operations[len(s.operations)-1]
}

// Operations lists the operations in the order in which they were added.
func (s *Server) Operations() []Operation { return s.operations }

// fails responds to an error, with its message or as an internal error.
func (s *Server) fails(w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := errors.AsType[*control.NodeError](err); ok {
		respond(w, e.Status, Failure{e.Message, e.Code, e.Details})
		return
	}
	e := control.AsError(err)
	if e == nil {
		s.internalError(w, r, err)
		return
	}
	if retry := e.RetryAfter(); retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(retry.Seconds())))
	}
	fail(w, e.Code, e.In(lang(r)))
}

// readInput fills the fields of *in from the URL and the body of a request.
func readInput(w http.ResponseWriter, r *http.Request, in any, most int64) error {
	v := reflect.ValueOf(in).Elem()
	if v.Kind() != reflect.Struct {
		return nil
	}
	body, err := readAddress(r, r.URL.Query(), v)
	if err != nil {
		return err
	}
	if !body || r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return nil
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	switch err := d.Decode(in); {
	case errors.Is(err, io.EOF): // empty body
		return nil
	case err != nil:
		return i18n.Message("the request body is invalid: %v").Errorf(err)
	}
	return nil
}

// readAddress fills the fields of a struct, and of embedded ones, that are in the URL, and reports
// whether there are others.
func readAddress(r *http.Request, query url.Values, v reflect.Value) (body bool, err error) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		var text, name string
		switch {
		case f.Tag.Get("path") != "":
			name = f.Tag.Get("path")
			text = r.PathValue(name)
		case f.Tag.Get("query") != "":
			name = f.Tag.Get("query")
			text = query.Get(name)
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			more, err := readAddress(r, query, v.Field(i))
			if err != nil {
				return false, err
			}
			body = body || more
			continue
		default:
			body = body || f.IsExported() && f.Tag.Get("json") != "-"
			continue
		}
		if text == "" {
			continue
		}
		if err := setText(v.Field(i), text); err != nil {
			return false, i18n.Message("%s is %q; %v").Errorf(name, text, err)
		}
	}
	return body, nil
}

// Failure is the response to an operation that failed.
type Failure struct {
	Message string `json:"error"`
	// Code is a [problem.Code], or OpenClaw's of operations on nodes, whose Details these are.
	Code    string          `json:"code,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// setText parses a text of the URL into a field.
func setText(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return i18n.Message("it must be true or false").Errorf()
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return i18n.Message("it must be a number").Errorf()
		}
		v.SetInt(n)
	default:
		u, ok := v.Addr().Interface().(interface{ UnmarshalText([]byte) error })
		if !ok {
			panic(fmt.Sprintf("a field of type %s cannot be in an address", v.Type()))
		}
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}
