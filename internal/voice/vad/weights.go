package vad

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"sync"
)

// weightsFile has the tensors of Silero VAD v6 for 16 kHz (MIT licence, in LICENSE.silero), in the
// format safetensors: the length of a JSON header in 8 bytes, the header, and float32 values, all
// little-endian. Its tensors are those of the 16 kHz branch of silero_vad_v6.onnx in the npm
// package @ricky0123/vad-web 0.0.31. The file of that name in the repository of Silero VAD has
// older weights.
//
//go:embed silero_v6_16k.safetensors
var weightsFile []byte

// weightsSum is the SHA-256 of weightsFile.
const weightsSum = "8fe5ade2da22d6e4478cfe0b611cffd30334da8753aec34f6492a4c3b3ce0efb"

// convolution is a layer with a kernel of three: weights [out][tap][in], so that the inputs of a
// tap are contiguous, as they are in a frame.
type convolution struct {
	in, out int
	weights []float32
	bias    []float32
}

// weights are those of the model. They are shared by all detectors and never written.
type weights struct {
	conv1, conv2, conv3, conv4 convolution
	// gates has a row per gate value: 128 weights of the input, then 128 of the state before.
	gates     []float32
	gatesBias []float32
	last      []float32
	lastBias  float32
}

// model reads the weights once.
var model = sync.OnceValue(func() *weights {
	w, err := readWeights(weightsFile)
	if err != nil {
		panic(err) // the file is embedded and tested
	}
	return w
})

// tensors are the float32 values of a safetensors file by name.
type tensors map[string][]float32

func readTensors(file []byte) (tensors, error) {
	if len(file) < 8 || binary.LittleEndian.Uint64(file) > uint64(len(file)-8) {
		return nil, fmt.Errorf("voice detector: the header of the weights is cut off")
	}
	data := file[8+binary.LittleEndian.Uint64(file):]
	header := map[string]struct {
		Type    string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}{}
	if err := json.Unmarshal(file[8:len(file)-len(data)], &header); err != nil {
		return nil, fmt.Errorf("voice detector: the header of the weights: %w", err)
	}
	t := tensors{}
	for name, h := range header {
		if h.Type != "F32" || h.Offsets[0] < 0 || h.Offsets[0] > h.Offsets[1] || h.Offsets[1] > len(data) {
			return nil, fmt.Errorf("voice detector: the tensor %s is malformed", name)
		}
		b := data[h.Offsets[0]:h.Offsets[1]]
		values := make([]float32, len(b)/4)
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		t[name] = values
	}
	return t, nil
}

// take returns a tensor that has to have n values.
func (t tensors) take(name string, n int) ([]float32, error) {
	if len(t[name]) != n {
		return nil, fmt.Errorf("voice detector: the tensor %s has %d values, not %d", name, len(t[name]), n)
	}
	return t[name], nil
}

// convolution reads a layer, whose weights are stored as [out][in][tap].
func (t tensors) convolution(name string, in, out int) (c convolution, err error) {
	stored, err := t.take(name+".weight", out*in*taps)
	if err != nil {
		return c, err
	}
	c = convolution{in: in, out: out, weights: make([]float32, len(stored))}
	for o := range out {
		for i := range in {
			for k := range taps {
				c.weights[(o*taps+k)*in+i] = stored[(o*in+i)*taps+k]
			}
		}
	}
	c.bias, err = t.take(name+".bias", out)
	return c, err
}

func readWeights(file []byte) (*weights, error) {
	t, err := readTensors(file)
	if err != nil {
		return nil, err
	}
	w := &weights{}
	for _, layer := range []struct {
		to      *convolution
		name    string
		in, out int
	}{
		{&w.conv1, "conv1", bins, 128}, {&w.conv2, "conv2", 128, 64},
		{&w.conv3, "conv3", 64, 64}, {&w.conv4, "conv4", 64, units},
	} {
		if *layer.to, err = t.convolution(layer.name, layer.in, layer.out); err != nil {
			return nil, err
		}
	}
	var values [6][]float32
	for i, tensor := range []struct {
		name string
		n    int
	}{
		{"lstm_cell.weight_ih", 4 * units * units}, {"lstm_cell.weight_hh", 4 * units * units},
		{"lstm_cell.bias_ih", 4 * units}, {"lstm_cell.bias_hh", 4 * units},
		{"final_conv.weight", units}, {"final_conv.bias", 1},
	} {
		if values[i], err = t.take(tensor.name, tensor.n); err != nil {
			return nil, err
		}
	}
	input, state := values[0], values[1]
	for row := range 4 * units {
		w.gates = append(append(w.gates, input[row*units:(row+1)*units]...), state[row*units:(row+1)*units]...)
		w.gatesBias = append(w.gatesBias, values[2][row]+values[3][row])
	}
	w.last, w.lastBias = values[4], values[5][0]
	return w, nil
}
