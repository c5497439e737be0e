package vad

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wav reads the samples of a file whose header has 44 bytes.
func wav(t testing.TB, name string) (pcm []int16) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(b[36:40]) != "data" {
		t.Fatalf("%s: its header has not 44 bytes", name)
	}
	for b = b[44:]; len(b) >= 2; b = b[2:] {
		pcm = append(pcm, int16(binary.LittleEndian.Uint16(b)))
	}
	return pcm
}

func decode(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestProbability compares every window of the recordings with what onnxruntime computes.
func TestProbability(t *testing.T) {
	names, err := filepath.Glob("testdata/*.wav")
	if err != nil || len(names) != 5 {
		t.Fatalf("%d recordings: %v", len(names), err)
	}
	var d Detector
	worst := 0.0
	for _, name := range names {
		var want []float64
		decode(t, strings.TrimSuffix(name, ".wav")+".probs.json", &want)
		pcm := wav(t, name)
		for i, p := range want {
			var window [Window]int16
			copy(window[:], pcm[i*Window:]) // the last one may be shorter
			off := math.Abs(d.Probability(&window) - p)
			worst = max(worst, off)
			if !(off <= 1e-4) {
				t.Fatalf("%s: window %d is off by %g", name, i, off)
			}
		}
		d.Reset()
	}
	t.Logf("off by %.1e at most", worst)
}

// TestLayers finds the layer that is wrong if TestProbability fails.
func TestLayers(t *testing.T) {
	pcm := wav(t, "testdata/human_zh.wav")
	for _, name := range []string{"testdata/layers_human_zh_w0.json", "testdata/layers_human_zh_w40.json"} {
		var want struct {
			Window    int
			Magnitude [][]float64 `json:"magnitude_129x4"`
			H, C      []float64
		}
		decode(t, name, &want)
		var d Detector
		var window [Window]int16
		var before Detector
		for i := range want.Window + 1 {
			copy(window[:], pcm[i*Window:])
			before = d
			d.Probability(&window)
		}
		var l layers
		before.spectrum(&window, &l)
		for k, row := range want.Magnitude {
			for f, m := range row {
				if off := math.Abs(float64(l.spectrum[f+1][k]) - m); off > 1e-4 {
					t.Fatalf("%s: frequency %d of frame %d is off by %g", name, k, f, off)
				}
			}
		}
		for i := range want.H {
			hidden, cell := float64(d.hidden[i]), float64(d.cell[i])
			if off := max(math.Abs(hidden-want.H[i]), math.Abs(cell-want.C[i])); off > 1e-3 {
				t.Fatalf("%s: state %d is off by %g", name, i, off)
			}
		}
	}
}

func TestProbabilityAllocatesNothing(t *testing.T) {
	var d Detector
	var window [Window]int16
	if n := testing.AllocsPerRun(10, func() { d.Probability(&window) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWeights(t *testing.T) {
	if sum := sha256.Sum256(weightsFile); hex.EncodeToString(sum[:]) != weightsSum {
		t.Errorf("the file of the weights is another one: %x", sum)
	}
	header := append(binary.LittleEndian.AppendUint64(nil, 2), "{}"...)
	for name, file := range map[string][]byte{
		"empty":               nil,
		"cut off":             weightsFile[:1000],
		"header without end":  weightsFile[:8],
		"not JSON":            append(binary.LittleEndian.AppendUint64(nil, 2), "[}"...),
		"without tensors":     header,
		"values that are cut": weightsFile[:len(weightsFile)-1000],
	} {
		if _, err := readWeights(file); err == nil {
			t.Errorf("%s: there is no error", name)
		}
	}
}

func BenchmarkProbability(b *testing.B) {
	var d Detector
	pcm := wav(b, "testdata/human_zh.wav")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Probability((*[Window]int16)(pcm[i%100*Window:]))
	}
}
