"""What an inbound mail is: one rule a file, in order, then flags; see `messaging.receive.classify.chain`."""
