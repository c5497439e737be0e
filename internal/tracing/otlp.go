package tracing

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of OTLP are written field by field: the generated code of OpenTelemetry's own
// exporter brings gRPC, which is 5 MB of the program. Field numbers are those of
// opentelemetry-proto v1.11.0 (opentelemetry/proto/trace/v1/trace.proto, common/v1/common.proto,
// resource/v1/resource.proto).

// scope is the name of the instrumentation.
const scope = "patchbay"

// message is a message under construction.
type message []byte

func (m *message) bytes(field protowire.Number, value []byte) {
	if len(value) > 0 {
		*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), value)
	}
}

func (m *message) text(field protowire.Number, value string) { m.bytes(field, []byte(value)) }

// part adds a message within the message, also if it is empty.
func (m *message) part(field protowire.Number, write func(*message)) {
	var in message
	write(&in)
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), in)
}

func (m *message) varint(field protowire.Number, value uint64) {
	if value != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), value)
	}
}

func (m *message) fixed64(field protowire.Number, value uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), value)
}

func (m *message) time(field protowire.Number, at time.Time) {
	m.fixed64(field, uint64(max(at.UnixNano(), 0)))
}

// encode returns the ExportTraceServiceRequest with the spans of a batch.
func encode(about []attribute.KeyValue, version string, spans []sdk.ReadOnlySpan) []byte {
	var m message
	m.part(1, func(m *message) { // resource_spans
		m.part(1, func(m *message) { m.attributes(1, about) }) // resource
		m.part(2, func(m *message) {                           // scope_spans
			m.part(1, func(m *message) {
				m.text(1, scope)
				m.text(2, version)
			})
			for _, s := range spans {
				m.part(2, func(m *message) { m.span(s) })
			}
		})
	})
	return m
}

func (m *message) span(s sdk.ReadOnlySpan) {
	at := s.SpanContext()
	traceID, spanID := at.TraceID(), at.SpanID()
	m.bytes(1, traceID[:])
	m.bytes(2, spanID[:])
	m.text(3, at.TraceState().String())
	flags := uint32(at.TraceFlags()) | flagHasRemote
	if parent := s.Parent(); parent.SpanID().IsValid() {
		id := parent.SpanID()
		m.bytes(4, id[:])
		if parent.IsRemote() {
			flags |= flagRemote
		}
	}
	m.text(5, s.Name())
	m.varint(6, uint64(s.SpanKind())) // the numbers are the same
	m.time(7, s.StartTime())
	m.time(8, s.EndTime())
	m.attributes(9, s.Attributes())
	m.varint(10, uint64(s.DroppedAttributes()))
	for _, e := range s.Events() {
		m.part(11, func(m *message) {
			m.time(1, e.Time)
			m.text(2, e.Name)
			m.attributes(3, e.Attributes)
		})
	}
	m.varint(12, uint64(s.DroppedEvents()))
	if s.Status().Code == codes.Error {
		m.part(15, func(m *message) { m.varint(3, statusError) })
	}
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, 16, protowire.Fixed32Type), flags)
}

const (
	// flagHasRemote and flagRemote tell whether the parent is in another process (trace.proto,
	// SpanFlags).
	flagHasRemote = 1 << 8
	flagRemote    = 1 << 9
	// statusError is STATUS_CODE_ERROR.
	statusError = 2
)

func (m *message) attributes(field protowire.Number, list []attribute.KeyValue) {
	for _, a := range list {
		m.part(field, func(m *message) {
			m.text(1, string(a.Key))
			m.part(2, func(m *message) { m.value(a.Value) })
		})
	}
}

// value writes an AnyValue. Its members are those of a oneof, and are written if they are zero too.
func (m *message) value(v attribute.Value) {
	switch v.Type() {
	case attribute.INT64:
		*m = protowire.AppendVarint(protowire.AppendTag(*m, 3, protowire.VarintType), uint64(v.AsInt64()))
	case attribute.FLOAT64:
		m.fixed64(4, math.Float64bits(v.AsFloat64()))
	case attribute.STRINGSLICE:
		m.part(5, func(m *message) {
			for _, text := range v.AsStringSlice() {
				m.part(1, func(m *message) { m.value(attribute.StringValue(text)) })
			}
		})
	default:
		*m = protowire.AppendString(protowire.AppendTag(*m, 1, protowire.BytesType), v.String())
	}
}

// field returns the last bytes and the last number of a field of a message; zero if it has none, or
// if the message is not valid.
func field(m []byte, wanted protowire.Number) (value []byte, number uint64) {
	for len(m) > 0 {
		id, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return nil, 0
		}
		m = m[n:]
		size := protowire.ConsumeFieldValue(id, kind, m)
		if size < 0 {
			return nil, 0
		}
		if id == wanted && kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(m)
		}
		if id == wanted && kind == protowire.VarintType {
			number, _ = protowire.ConsumeVarint(m)
		}
		m = m[size:]
	}
	return value, number
}

// rejected returns how many spans a collector did not take, and why (ExportTraceServiceResponse in
// opentelemetry/proto/collector/trace/v1/trace_service.proto).
func rejected(response []byte) (spans int64, why string) {
	partial, _ := field(response, 1)
	_, n := field(partial, 1)
	text, _ := field(partial, 2)
	return int64(min(n, math.MaxInt32)), string(text)
}

// refusal returns the text of an error (google.rpc.Status).
func refusal(response []byte) string {
	text, _ := field(response, 2)
	return string(text)
}
