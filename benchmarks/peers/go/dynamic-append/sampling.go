package main

import "github.com/netsampler/goflow2/v2/decoders/netflow"

// Sampler ids are unique within a domain: an observation domain (IPFIX) or source id (NetFlow v9).
type domain struct {
	version uint16
	id      uint32
}

// sampling has the rate of each sampler by domain, from options records.
type sampling map[domain]map[uint64]uint64

// rate returns the rate of a record's sampler. A record without sampler gets the rate of the domain's only one.
func (s sampling) rate(domain domain, sampler uint64) uint64 {
	samplers := s[domain]
	if sampler == 0 && len(samplers) == 1 {
		for _, rate := range samplers {
			return rate
		}
	}
	return samplers[sampler]
}

// learn stores the rate of an options record that has one.
func (s sampling) learn(domain domain, record netflow.OptionsDataRecord) {
	var id, rate, interval, space uint64
	for _, fields := range [][]netflow.DataField{record.ScopesValues, record.OptionsValues} {
		for _, field := range fields {
			content, ok := field.Value.([]byte)
			if !ok || field.PenProvided {
				continue
			}
			switch field.Type {
			case netflow.IPFIX_FIELD_samplerId, netflow.IPFIX_FIELD_selectorId:
				id = number(content)
			case netflow.IPFIX_FIELD_samplingInterval, netflow.IPFIX_FIELD_samplerRandomInterval:
				first(&rate, number(content))
			case netflow.IPFIX_FIELD_samplingPacketInterval:
				interval = number(content)
			case netflow.IPFIX_FIELD_samplingPacketSpace:
				space = number(content)
			}
		}
	}
	if interval > 0 {
		rate = (interval + space) / interval
	}
	if rate > 0 {
		s.set(domain, id, rate)
	}
}

func (s sampling) set(domain domain, sampler, rate uint64) {
	if s[domain] == nil {
		s[domain] = map[uint64]uint64{}
	}
	s[domain][sampler] = rate
}
