"""What formats are worth behind a real broker: a consumer that is behind by a constant number of messages
catches up.

A producer fills a new topic and ends. Then a consumer, of one processor and little memory, drains it from its
first offset; so that nothing waits for a producer, and what counts is the consumer alone.
"""
